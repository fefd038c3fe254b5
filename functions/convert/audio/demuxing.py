"""Decodes a recording in memory with FFmpeg's libraries, in the process it is called in.

Only decoding processes call this: what it is given comes from strangers.
"""

from __future__ import annotations

import errno
import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import av
import av.error
import av.logging
import numpy as np

from functions.convert.audio.recording import MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from shared.media import Container
from shared.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.plane import AudioPlane
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

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

# Browsers send one or two streams, music with cover art three.
_MAX_STREAMS: Final = 16

# Headers tell everything about the codecs above; looking further only costs time.
_PROBE_BYTES: Final = 32 * 1024

# More broken packets than this, and what is left is not what was said.
_MAX_BROKEN_SHARE: Final = 0.2
_MAX_BROKEN_IN_A_ROW: Final = 200

_SILENT_WAV: Final = (
    struct.pack("<4sI4s", b"RIFF", 228, b"WAVE")
    + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    + struct.pack("<4sI192x", b"data", 192)
)

_SAMPLE_TYPES: Final[Mapping[str, type[np.number[Any]]]] = {
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "flt": np.float32,
    "dbl": np.float64,
}

_CENTRE_WEIGHTS: Final = {"FC": 1.0, "FL": 0.7071, "FR": 0.7071, "LFE": 0.0, "LFE2": 0.0}
_OTHER_WEIGHT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Format:
    """What the first decoded frame tells about the recording.

    Attributes:
        codec: name of the codec.
        sample_rate: in Hz.
        channels: how many there are.
    """

    codec: str
    sample_rate: int
    channels: int

    @property
    def sent_channels(self) -> int:
        """How many channels the chunks have: two stay two, more are mixed into one."""
        return 2 if self.channels == 2 else 1  # noqa: PLR2004


class Demuxer:
    """Decodes the first audio stream of one recording, piece by piece.

    Attributes:
        format: what the recording is, once the first chunk was taken.
        samples: how many samples of each channel were decoded so far.
        damaged: some of the recording could not be decoded.
    """

    def __init__(self, data: bytes, container: Container) -> None:
        self._data = data
        self._container = container
        self._packets = 0
        self._broken = 0
        self._broken_in_a_row = 0
        self.format: Format | None = None
        self.samples = 0
        self.damaged = False

    def chunks(self, max_seconds: float) -> Iterator[npt.NDArray[np.float32]]:
        """Yield float32 [n, 1 or 2] until the end, or until more than `max_seconds` are decoded.

        Raises:
            VoiceError: `unsupported_format`, `no_audio`, `corrupt`, `too_complex` or `too_long`.
        """
        with _open(self._data, self._container) as source:
            stream = _first_audio_stream(source)
            for packet in self._demux(source, stream):
                for frame in self._decode(packet):
                    yield self._convert(frame, stream)
                    self._require_shorter(max_seconds)
        self._require_enough()

    def _demux(self, source: InputContainer, stream: AudioStream) -> Iterator[Packet[AudioStream]]:
        packets = iter(source.demux(stream))
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError as error:
                # The container broke off in the middle; what came before it stands.
                _refuse_if_too_complex(error)
                self.damaged = True
                return
            if packet is None:
                return
            yield packet

    def _decode(self, packet: Packet[AudioStream]) -> list[AudioFrame]:
        self._packets += 1
        self.damaged |= packet.is_corrupt
        try:
            frames = packet.decode()
        except av.error.FFmpegError as error:
            _refuse_if_too_complex(error)
            self._count_broken()
            return []
        self._broken_in_a_row = 0
        return frames

    def _count_broken(self) -> None:
        self.damaged = True
        self._broken += 1
        self._broken_in_a_row += 1
        if self._broken_in_a_row > _MAX_BROKEN_IN_A_ROW:
            raise _corrupt("nothing in it can be decoded")

    def _convert(self, frame: AudioFrame, stream: AudioStream) -> npt.NDArray[np.float32]:
        if self.format is None:
            self.format = _accepted_format(frame, stream)
        if frame.sample_rate != self.format.sample_rate:
            raise _corrupt("its sample rate changes in the middle")
        self.samples += frame.samples
        channels = _as_float(frame)
        if len(channels) != self.format.sent_channels:
            mixed = _weights(frame) @ channels
            channels = np.stack([mixed] * self.format.sent_channels)
        return np.ascontiguousarray(channels.T)

    def _require_shorter(self, max_seconds: float) -> None:
        if self.format is not None and self.samples > max_seconds * self.format.sample_rate:
            raise VoiceError(ErrorCode.TOO_LONG, "The recording is too long.")

    def _require_enough(self) -> None:
        if self.samples == 0:
            if self.damaged:
                raise _corrupt("nothing in it can be decoded")
            raise VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it holds no audio.")
        if self._broken > _MAX_BROKEN_SHARE * self._packets:
            raise _corrupt(f"{self._broken} of its {self._packets} packets cannot be decoded")


def _open(data: bytes, container: Container) -> InputContainer:
    av.logging.set_level(None)
    try:
        return av.open(
            io.BytesIO(data),
            mode="r",
            format=_DEMUXERS[container],
            container_options={
                "protocol_whitelist": "",
                "format_whitelist": ",".join(sorted(set(_DEMUXERS.values()))),
                "codec_whitelist": ",".join(_CODECS),
                "max_streams": str(_MAX_STREAMS),
                "probesize": str(_PROBE_BYTES),
            },
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
    # Without a decoder for it a stream has no context, whatever the library's types say.
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


def _accepted_format(frame: AudioFrame, stream: AudioStream) -> Format:
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
    return Format(stream.codec_context.codec.name, rate, channels)


def _as_float(frame: AudioFrame) -> npt.NDArray[np.float32]:
    """The frame's samples as float32 [channels, n], full scale 1.0."""
    values = _values(frame)
    if values.dtype == np.uint8:
        return (values.astype(np.float32) - np.float32(128)) / np.float32(128)
    if values.dtype.kind == "i":
        scale = np.float32(2.0 ** (1 - 8 * values.dtype.itemsize))
        return values.astype(np.float32) * scale
    return values.astype(np.float32, copy=False)


def _values(frame: AudioFrame) -> npt.NDArray[Any]:
    """The frame's samples [channels, n] as they are, seen in place where that is possible.

    A recording has fifty frames a second: `AudioFrame.to_ndarray` takes longer over them than
    their decoder.
    """
    dtype = _SAMPLE_TYPES[frame.format.name.removesuffix("p")]
    channels = frame.layout.nb_channels
    if not frame.format.is_planar:
        packed = np.frombuffer(_buffer(frame.planes[0]), dtype, frame.samples * channels)
        return packed.reshape(-1, channels).T
    planes = [np.frombuffer(_buffer(plane), dtype, frame.samples) for plane in frame.planes]
    return planes[0][None] if len(planes) == 1 else np.stack(planes)


def _buffer(plane: AudioPlane) -> bytes:
    # A plane is a buffer, which types cannot say before Python 3.12.
    return cast("bytes", plane)


def _weights(frame: AudioFrame) -> npt.NDArray[np.float32]:
    """How much of each channel goes into one: speech is in the centre; their sum is 1."""
    names = [channel.name for channel in frame.layout.channels]
    known = [_CENTRE_WEIGHTS.get(name, _OTHER_WEIGHT) for name in names]
    weights = np.asarray(known if any(known) else [1.0] * len(names), dtype=np.float32)
    return weights / np.float32(weights.sum())


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
    """Do once, before processes are forked, what every first use of the libraries does.

    Opens every codec, which fills its tables, and decodes a few samples of silence.
    """
    for codec in _CODECS:
        context = av.CodecContext.create(codec, "r")
        context.thread_count = 1
    for _ in Demuxer(_SILENT_WAV, Container.WAV).chunks(1.0):
        pass
