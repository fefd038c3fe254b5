"""Decodes a recording in memory with FFmpeg's libraries, in the process it is called in.

Recordings come from strangers, so this runs only in decoding processes.
"""

from __future__ import annotations

import errno
import io
import operator
import os
import struct
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import av
import av.error
import av.logging
from av.codec.context import Flags2
from av.sidedata.sidedata import Type

from shared.speech.decoding.wire import MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, SAMPLE_TYPES
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.plane import AudioPlane
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.sidedata.sidedata import SideData


_HIDDEN_SHARE: Final = 1.0
"""The audio that may be discarded, as a part of the longest recording.

Encoders hide up to a tenth of a second, and an editor all that it has cut off.
"""

_BYTES_SHARE: Final = 2.0
"""The bytes that may be decoded, as a part of the file: most containers name each byte once."""

_LEAST_BYTES: Final = 65_536

_PACKETS_PER_SECOND: Final = 2_000
"""Opus has at most 400, FLAC in blocks of 192 samples 1000 at the highest sample rate."""

_LEAST_PACKETS: Final = 1_000

_SECONDS_OF_A_FRUITLESS_PACKET: Final = 0.02
"""The length of most packets, which a packet counts from which no sound comes."""


class DecodingBudget:
    """A limit on what one recording may make us decode; each count may raise `too_complex`."""

    def __init__(self, file_bytes: int, longest: float) -> None:
        self._file_bytes = file_bytes
        self._bytes = _LEAST_BYTES + _BYTES_SHARE * file_bytes
        self._packets = _LEAST_PACKETS + _PACKETS_PER_SECOND * longest
        self._seconds = (1 + _HIDDEN_SHARE) * longest

    def count_packet(self, size: int) -> None:
        self._packets -= 1
        if self._packets < 0:
            raise _too_complex("has too many packets for its length")
        self._spend_bytes(size)

    def count_file(self, size: int) -> None:
        """Count a streamed file by its real size."""
        self._spend_bytes(_BYTES_SHARE * (self._file_bytes - size))
        self._file_bytes = size

    def count_frame(self, samples: int, sample_rate: int) -> None:
        """Count a decoded frame with `samples` of each channel, whether they are heard or not."""
        # A rate that is not supported is refused elsewhere; here it must not make time cheaper.
        self._spend(samples / min(max(sample_rate, 1), MAX_SAMPLE_RATE))

    def count_fruitless_packet(self) -> None:
        self._spend(_SECONDS_OF_A_FRUITLESS_PACKET)

    def _spend_bytes(self, size: float) -> None:
        self._bytes -= size
        if self._bytes < 0:
            raise _too_complex("has the same bytes decoded again and again")

    def _spend(self, seconds: float) -> None:
        self._seconds -= seconds
        if self._seconds < 0:
            raise _too_complex("hides more audio than it plays")


def _too_complex(why: str) -> VoiceError:
    return VoiceError(
        ErrorCode.TOO_COMPLEX,
        f"The recording {why}; save it again as a plain WebM, MP4 or WAV file.",
    )


# The samples to skip at the beginning of the frame and to discard at its end.
_SKIP_SAMPLES: Final = struct.Struct("<iI")


class FrameTrimmer:
    """Finds the samples of a stream's frames that belong to the recording."""

    def __init__(self, context: AudioCodecContext) -> None:
        context.flags2 |= Flags2.skip_manual
        self._still_skipped = 0
        self._is_first = True

    def find_part(self, frame: AudioFrame, packet: Packet[AudioStream]) -> tuple[int, int]:
        """Return the first sample of a frame that belongs to it, and the one after the last."""
        count, padding = frame.samples, 0
        # A frame whose side data is read lives until a garbage collection, and there is none here.
        # So it is read only where it can say something: the decoder itself skips only at the start.
        if self._is_first or packet.has_sidedata("skip_samples"):
            # The library's types allow only texts as keys.
            side_data = cast("Mapping[Type, SideData]", frame.side_data)
            self._still_skipped = 0
            if Type.SKIP_SAMPLES in side_data:
                said = bytes(side_data[Type.SKIP_SAMPLES])
                skipped, padding = _SKIP_SAMPLES.unpack_from(said)
                self._still_skipped = max(0, skipped)
        self._is_first = False
        begin = count if packet.is_discard else min(self._still_skipped, count)
        self._still_skipped -= min(self._still_skipped, count)
        # More than there is left is no padding but a mistake of the program that wrote the file.
        end = count - padding if padding <= count - begin else count
        return begin, end


_DEMUXERS: Final = {
    Container.WEBM: "matroska",
    Container.MATROSKA: "matroska",
    Container.MP4: "mov",
    Container.OGG: "ogg",
    Container.WAV: "wav",
    Container.MP3: "mp3",
    Container.FLAC: "flac",
    Container.ADTS: "aac",
}

_CODECS: Final = (
    *("aac", "alac", "flac", "mp3", "mp3float", "opus", "vorbis"),
    *("pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le"),
    *("pcm_s16be", "pcm_s24be", "pcm_s32be", "pcm_f32be", "pcm_f64be", "pcm_alaw", "pcm_mulaw"),
)

_OPTIONS: Final = {
    "protocol_whitelist": "",
    "format_whitelist": ",".join(sorted(set(_DEMUXERS.values()))),
    "codec_whitelist": ",".join(_CODECS),
    # Browsers send one or two streams, music with cover art three.
    "max_streams": "16",
    # The headers of the codecs above say everything; reading further only costs time.
    "probesize": str(32 * 1024),
}

# Nothing is read only to learn more of the recording, so that its first packet is heard at once.
_OPTIONS_WHILE_IT_COMES: Final = {**_OPTIONS, "analyzeduration": "0"}
_BUFFER_BYTES: Final = 32 * 1024
_BUFFER_BYTES_WHILE_IT_COMES: Final = 4 * 1024

# With more broken packets than this, too much of the speech is missing.
_MAX_BROKEN_SHARE: Final = 0.2
_MAX_BROKEN_IN_A_ROW: Final = 200

_REHEARSALS: Final = 16
_SILENT_WAV: Final = (
    struct.pack("<4sI4s", b"RIFF", 228, b"WAVE")
    + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    + struct.pack("<4sI192x", b"data", 192)
)

# The letters of Python's buffer protocol for wire.SAMPLE_TYPES.
_BUFFER_TYPES: Final[Mapping[str, str]] = dict(zip(SAMPLE_TYPES, "Bhiqfd", strict=True))
_WIDTHS: Final[Mapping[str, int]] = {
    name: struct.calcsize(letter) for name, letter in _BUFFER_TYPES.items()
}

_CENTRE_WEIGHTS: Final = {"FC": 1.0, "FL": 0.7071, "FR": 0.7071, "LFE": 0.0, "LFE2": 0.0}
_OTHER_WEIGHT: Final = 0.5


Buffer = bytes | memoryview


@dataclass(frozen=True)
class Format:
    """The recording's format, from the first decoded frame.

    Attributes:
        frame_format: FFmpeg's name of the sample type and layout.
        sent: the channels whose samples are passed on; `weights` are theirs in the mix.
    """

    codec: str
    frame_format: str
    sample_rate: int
    channels: int
    sent: tuple[int, ...]
    weights: tuple[float, ...]

    @cached_property
    def sample_type(self) -> str:
        """One of wire.SAMPLE_TYPES."""
        return self.frame_format.removesuffix("p")

    @cached_property
    def is_ready_made(self) -> bool:
        """A frame's first plane can be passed on unchanged."""
        is_interleaved = self.channels == 1 or not self.frame_format.endswith("p")
        return is_interleaved and len(self.sent) == self.channels

    @cached_property
    def bytes_per_sample(self) -> int:
        return len(self.sent) * _WIDTHS[self.sample_type]


class Demuxer:
    """Decodes the first audio stream of one recording, piece by piece.

    It does not compute with the samples: the service does that faster, with all samples at once,
    and without NumPy the zygote is half as large. `format` is None before the first chunk.
    """

    def __init__(self, data: bytes | IncomingFile, container: Container) -> None:
        self._data = data
        self._container = container
        self._packets = 0
        self._broken = 0
        self._broken_in_a_row = 0
        self.format: Format | None = None
        self.samples = 0
        self.damaged = False

    def chunks(self, max_seconds: float, max_bytes: int) -> Iterator[Buffer]:
        """Yield interleaved samples as they were decoded, until the end.

        If all channels would need more than `max_bytes`, only those with the largest weights are
        yielded.

        Raises:
            VoiceError: `unsupported_format`, `no_audio`, `corrupt`, `too_complex` or `too_long`,
                the last before more than `max_seconds` are yielded.
        """
        with _open(self._data, self._container) as source:
            stream = _first_audio_stream(source)
            decode = stream.codec_context.decode
            trimmer = FrameTrimmer(stream.codec_context)
            data = self._data
            budget = DecodingBudget(
                len(data) if isinstance(data, bytes) else data.most_bytes, max_seconds
            )
            for packet in self._demux(source, stream):
                budget.count_packet(packet.size)
                frames = self._decode(decode, packet)
                if not frames:
                    budget.count_fruitless_packet()
                for frame in frames:
                    budget.count_frame(frame.samples, frame.sample_rate)
                    begin, end = trimmer.find_part(frame, packet)
                    if begin < end:
                        if self.format is None:
                            self.format = _accepted_format(frame, stream, max_bytes / max_seconds)
                        longest = max_seconds * self.format.sample_rate
                        self.samples += end - begin
                        if self.samples > longest:
                            raise VoiceError(ErrorCode.TOO_LONG, "The recording is too long.")
                        yield _samples(frame, self.format, begin, end)
            if not isinstance(data, bytes):
                budget.count_file(data.bytes_read)
        self._require_enough()

    def _demux(self, source: InputContainer, stream: AudioStream) -> Iterator[Packet[AudioStream]]:
        try:
            yield from source.demux(stream)
        except av.error.FFmpegError as error:
            # The container breaks off in the middle; what came before is kept.
            _refuse_if_too_complex(error)
            self.damaged = True

    def _decode(
        self, decode: Callable[[Packet[AudioStream]], list[AudioFrame]], packet: Packet[AudioStream]
    ) -> list[AudioFrame]:
        self._packets += 1
        if packet.is_corrupt:
            self.damaged = True
        try:
            frames = decode(packet)
        except av.error.FFmpegError as error:
            _refuse_if_too_complex(error)
            self.damaged = True
            self._broken += 1
            self._broken_in_a_row += 1
            if self._broken_in_a_row > _MAX_BROKEN_IN_A_ROW:
                raise _corrupt("nothing in it can be decoded") from error
            return []
        self._broken_in_a_row = 0
        return frames

    def _require_enough(self) -> None:
        if self.samples == 0 and self.damaged:
            raise _corrupt("nothing in it can be decoded")
        if self.samples == 0:
            raise VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it holds no audio.")
        if self._broken > _MAX_BROKEN_SHARE * self._packets:
            raise _corrupt(f"{self._broken} of its {self._packets} packets cannot be decoded")


def _open(data: bytes | IncomingFile, container: Container) -> InputContainer:
    is_whole = isinstance(data, bytes)
    try:
        return av.open(
            io.BytesIO(data) if isinstance(data, bytes) else data,
            mode="r",
            format=_DEMUXERS[container],
            container_options=_OPTIONS if is_whole else _OPTIONS_WHILE_IT_COMES,
            buffer_size=_BUFFER_BYTES if is_whole else _BUFFER_BYTES_WHILE_IT_COMES,
            metadata_errors="replace",
            io_open=_refuse_reference,
        )
    except av.error.FFmpegError as error:
        _refuse_if_too_complex(error)
        raise _corrupt("its beginning cannot be read") from error


def _first_audio_stream(source: InputContainer) -> AudioStream:
    stream = next(iter(source.streams.audio), None)
    if stream is None:
        raise VoiceError(ErrorCode.NO_AUDIO, "The recording holds no audio.")
    # A stream without a decoder has no context, although the library's types say that it has one.
    context = cast("AudioCodecContext | None", stream.codec_context)
    if context is None or context.codec.name not in _CODECS:
        raise VoiceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            "The recording's codec is not supported; use Opus, AAC, MP3, Vorbis, FLAC or PCM.",
        )
    for other in source.streams:
        if other.index != stream.index:
            other.discard = av.stream.Discard.all
    context.thread_count = 1
    return stream


def _accepted_format(frame: AudioFrame, stream: AudioStream, bytes_per_second: float) -> Format:
    rate, channels = frame.sample_rate, frame.layout.nb_channels
    if not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        raise VoiceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"The recording has {rate} samples a second; "
            f"{MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} are supported.",
        )
    if channels > MAX_CHANNELS:
        raise VoiceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"The recording has {channels} channels; at most {MAX_CHANNELS} are supported.",
        )
    frame_format = frame.format.name
    weights = _weights(frame)
    room = int(bytes_per_second / (rate * _WIDTHS[frame_format.removesuffix("p")]))
    by_weight = sorted(range(channels), key=lambda channel: -weights[channel])
    sent = tuple(sorted(by_weight[: max(room, 1)]))
    sent_weights = tuple(weights[channel] for channel in sent)
    codec = stream.codec_context.codec.name
    return Format(codec, frame_format, rate, channels, sent, sent_weights)


def _weights(frame: AudioFrame) -> list[float]:
    """Return the weight of each channel in the mix; speech is mostly in the centre."""
    names = [channel.name for channel in frame.layout.channels]
    known = [_CENTRE_WEIGHTS.get(name, _OTHER_WEIGHT) for name in names]
    return known if any(known) else [1.0] * len(names)


def _samples(frame: AudioFrame, expected: Format, begin: int, end: int) -> Buffer:
    if frame.sample_rate != expected.sample_rate:
        raise _corrupt("its sample rate changes in the middle")
    if frame.format.name != expected.frame_format or frame.layout.nb_channels != expected.channels:
        samples: Buffer = _adapt_channels(frame, expected)
    elif expected.is_ready_made:
        # It may be longer than its samples.
        samples = _buffer(frame.planes[0])
    else:
        channels = _channels(frame)
        samples = _interleave([channels[channel] for channel in expected.sent])
    width = expected.bytes_per_sample
    return memoryview(samples)[begin * width : end * width]


def _channels(frame: AudioFrame) -> list[memoryview]:
    name = frame.format.name
    letter = _BUFFER_TYPES[name.removesuffix("p")]
    planes = [_typed(_buffer(plane), letter) for plane in frame.planes]
    if name.endswith("p"):
        return [plane[: frame.samples] for plane in planes]
    count = frame.layout.nb_channels
    end = frame.samples * count
    return [planes[0][channel:end:count] for channel in range(count)]


def _interleave(channels: Sequence[memoryview | array[float]]) -> memoryview:
    first = memoryview(channels[0])
    together = bytearray(len(channels) * len(first) * first.itemsize)
    samples = _typed(together, first.format)
    for place, channel in enumerate(channels):
        samples[place :: len(channels)] = memoryview(channel)
    return memoryview(together)


def _typed(buffer: bytes | bytearray, letter: str) -> memoryview:
    # The type of `cast` accepts only literal letters.
    return cast("memoryview", cast("Any", memoryview(buffer)).cast(letter))


def _adapt_channels(frame: AudioFrame, expected: Format) -> memoryview:
    """Mix the channels of a frame whose number has changed: so rare that it may be slow."""
    if frame.format.name.removesuffix("p") != expected.sample_type:
        raise _corrupt("its sample format changes in the middle")
    weights, channels = _weights(frame), _channels(frame)
    letter = channels[0].format
    exact = float if letter in "fd" else round
    scale = 1 / sum(weights)
    frames = zip(*channels, strict=True)
    mixed = (exact(scale * sum(map(operator.mul, weights, each))) for each in frames)
    return _interleave([array(letter, mixed)] * len(expected.sent))


def _buffer(plane: AudioPlane) -> bytes:
    # A plane supports the buffer protocol, which has no type before Python 3.12.
    return cast("bytes", plane)


def _refuse_reference(url: str, _flags: int, _options: dict[str, str]) -> NoReturn:
    raise PermissionError(errno.EACCES, "a recording must not refer to anything", url[:80])


def _refuse_if_too_complex(error: av.error.FFmpegError) -> None:
    if error.errno == errno.ENOMEM or isinstance(error, MemoryError):
        raise VoiceError(
            ErrorCode.TOO_COMPLEX, "The recording needs too much memory to be decoded."
        ) from error


def _corrupt(why: str) -> VoiceError:
    return VoiceError(
        ErrorCode.CORRUPT, f"The recording is damaged or cut off: {why}; record it again."
    )


def warm_up() -> None:
    """Open every codec, which fills its tables, and decode a little silence.

    This is done before processes are forked, until the interpreter has specialised its code.
    """
    av.logging.set_level(None)
    for codec in _CODECS:
        context = av.CodecContext.create(codec, "r")
        context.thread_count = 1
    for _ in range(_REHEARSALS):
        for _ in Demuxer(_SILENT_WAV, Container.WAV).chunks(1.0, 1 << 20):
            pass


class IncomingFile:
    """A recording read from a descriptor as it comes, once, from front to back: it has no seek."""

    def __init__(
        self, descriptor: int, most_bytes: int, before_read: Callable[[], None] = lambda: None
    ) -> None:
        self._descriptor = descriptor
        self._before_read = before_read
        self.most_bytes = most_bytes
        self.bytes_read = 0

    def read(self, size: int) -> bytes:
        self._before_read()
        piece = os.read(self._descriptor, min(size, self.most_bytes - self.bytes_read))
        self.bytes_read += len(piece)
        return piece
