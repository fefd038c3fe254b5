"""Decodes a recording in memory with FFmpeg's libraries, in the process it is called in.

Recordings come from strangers, so this runs only in decoding processes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import struct
from typing import TYPE_CHECKING, Final, NoReturn, cast

import av
import av.error
import av.logging
from av.codec.context import Flags2
from av.sidedata.sidedata import Type

from shared.speech.decoding.file_parts import (
    begins_another_link,
    mend_matroska,
    split_links,
    wav_seconds,
)
from shared.speech.decoding.frames import (
    WIDTHS,
    Buffer,
    Format,
    FrameConverter,
    channel_weights,
    cut_frame,
    frame_energy,
    read_samples,
    sample_type,
)
from shared.speech.decoding.wire import MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.sidedata.sidedata import SideData


# As much audio may be discarded as the longest recording has: encoders hide up to a tenth of a
# second, and an editor all that it has cut off.
_HIDDEN_SHARE: Final = 1.0
# Most containers name each byte of their file once.
_BYTES_SHARE: Final = 2.0
_LEAST_BYTES: Final = 65_536
# Opus has at most 400, FLAC in blocks of 192 samples 1000 at the highest sample rate.
_PACKETS_PER_SECOND: Final = 2_000
_LEAST_PACKETS: Final = 1_000
# The length of most packets, which a packet counts from which no sound comes.
_SECONDS_OF_A_FRUITLESS_PACKET: Final = 0.02


class DecodingBudget:
    """A limit on what one recording may make us decode; each count may raise `too_complex`."""

    def __init__(self, file_bytes: int, longest: float) -> None:
        self._file_bytes = file_bytes
        self._bytes = _LEAST_BYTES + _BYTES_SHARE * file_bytes
        self._packets = _LEAST_PACKETS + _PACKETS_PER_SECOND * longest
        self._seconds = (1 + _HIDDEN_SHARE) * longest

    def count_packet(self, size: int) -> None:
        self._packets -= 1
        self._bytes -= size
        self._check()

    def count_file(self, size: int) -> None:
        self._bytes -= _BYTES_SHARE * (self._file_bytes - size)
        self._file_bytes = size
        self._check()

    def count_frame(self, samples: int, sample_rate: int) -> None:
        """Count a decoded frame with `samples` of each channel, whether they are heard or not."""
        # A rate that is not supported is refused elsewhere; here it must not make time cheaper.
        self._seconds -= samples / min(max(sample_rate, 1), MAX_SAMPLE_RATE)
        self._check()

    def count_fruitless_packet(self) -> None:
        self._seconds -= _SECONDS_OF_A_FRUITLESS_PACKET
        self._check()

    def _check(self) -> None:
        if self._packets < 0:
            why = "has too many packets for its length"
        elif self._bytes < 0:
            why = "has the same bytes decoded again and again"
        elif self._seconds < 0:
            why = "hides more audio than it plays"
        else:
            return
        raise VoiceError(
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

_MATROSKA: Final = frozenset({Container.WEBM, Container.MATROSKA})

_GAP: Final = 0.25  # seconds; recorders leave shorter gaps when their machine is busy
_BROKEN_GAP: Final = 0.01
_PRIMING: Final = 4096  # samples that encoders may put in front of a recording or leave out at last
_LONGEST_TAIL: Final = 3600.0  # seconds; more is no length, but means that none is known
_LONGEST_INDEX: Final = 16_384  # bytes that may follow the sound of a live Matroska file

_OVERLAP: Final = 80
_FRAMES_COUNTED: Final = re.compile(rb"Xing|Info|VBRI")
_MOST_COMPARED: Final = 4
_MOST_COMPARED_PACKETS: Final = 4_000

# With more broken packets than this, too much of the speech is missing.
_MAX_BROKEN_SHARE: Final = 0.2
_MAX_BROKEN_IN_A_ROW: Final = 200

_REHEARSALS: Final = 16
_SILENT_WAV: Final = (
    struct.pack("<4sI4s", b"RIFF", 228, b"WAVE")
    + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    + struct.pack("<4sI192x", b"data", 192)
)


class Timeline:
    """Finds the time that is missing: frames against timestamps, or bytes where there are none."""

    def __init__(self, *, has_times: bool, is_damaged: bool) -> None:
        self._has_times = has_times
        self._gap = _BROKEN_GAP if is_damaged else _GAP
        self._position: float | None = None
        self._begin = 0.0
        self._first_byte: int | None = None
        self._heard_bytes = 0
        self.last_byte = 0
        self.missing = 0.0

    def count_bytes(self, packet: Packet[AudioStream], *, is_heard: bool) -> None:
        if packet.pos is not None:
            if self._first_byte is None:
                self._first_byte = packet.pos
            self.last_byte = max(self.last_byte, packet.pos + packet.size)
        self._heard_bytes += packet.size * is_heard

    def end_of_bytes(self, size: int) -> None:
        """Estimate the missing time of damaged frames without timestamps by their bytes."""
        lost = size - (self._first_byte or 0) - self._heard_bytes
        if not self._has_times and self._heard_bytes and lost > 0 and self._position is not None:
            heard = self._position - self._begin
            self.missing = max(self.missing, heard * lost / self._heard_bytes)

    def add(self, frame: AudioFrame, *, after_broken: bool) -> None:
        at = None
        if self._has_times and frame.pts is not None and frame.time_base is not None:
            at = float(frame.pts * frame.time_base)
        if self._position is None:
            self._begin = self._position = at or 0.0
        # What is joined to a file may begin at an earlier time; then only the length counts.
        if at is not None and at > self._position:
            if at - self._position > (_BROKEN_GAP if after_broken else self._gap):
                self.missing += at - self._position
            self._position = at
        self._position += frame.samples / max(frame.sample_rate, 1)

    def end(self, seconds: float, sample_rate: int) -> None:
        """Compare with the length that the file says, from its first frame."""
        reached = (self._position or 0.0) - self._begin
        if max(_GAP, _PRIMING / sample_rate) < seconds - reached < _LONGEST_TAIL:
            self.missing += seconds - reached


class Demuxer:
    """Decodes one audio stream of a recording, piece by piece: the loudest of several.

    With `takes_beginning`, a recording that is too long is decoded up to there.

    Attributes:
        format: None before the first chunk.
        missing_seconds: the time of which nothing could be decoded, as far as the file tells.
        needs_whole: only another Demuxer, with the whole file, can tell what the recording is.
    """

    def __init__(
        self,
        data: bytes | IncomingFile,
        container: Container,
        *,
        takes_beginning: bool = False,
    ) -> None:
        self._data = data
        self._takes_beginning = takes_beginning
        self._container = container
        self._packets = 0
        self._broken = 0
        self._broken_in_a_row = 0
        self._is_after_broken = False
        self._changed: FrameConverter | None = None
        self.format: Format | None = None
        self.samples = 0
        self.damaged = False
        self.missing_seconds = 0.0
        self.needs_whole = False

    def chunks(self, max_seconds: float, max_bytes: int) -> Iterator[Buffer]:
        """Yield interleaved samples as they were decoded, until the end.

        Files that were joined are decoded one after the other, and brought to the first one's rate.
        If all channels would need more than `max_bytes`, only those with the largest weights are
        yielded.

        Raises:
            VoiceError: `unsupported_format`, `no_audio`, `corrupt`, `too_complex` or `too_long`,
                the last before more than `max_seconds` are yielded.
        """
        data = self._data
        size = len(data) if isinstance(data, bytes) else data.most_bytes
        budget = DecodingBudget(size, max_seconds)
        links: Iterable[bytes | IncomingFile] = [data]
        if isinstance(data, bytes):
            links = split_links(data, self._container)
        failure: VoiceError | None = None
        for link in links:
            try:
                for samples in self._decode_link(link, budget, max_bytes / max_seconds):
                    self._count(samples, max_seconds)
                    yield samples
            except VoiceError as error:
                if self._takes_beginning and error.code is ErrorCode.TOO_LONG:
                    break
                # The others are kept where one of the joined files cannot be read.
                if error.code in {ErrorCode.TOO_COMPLEX, ErrorCode.TOO_LONG}:
                    raise
                failure = failure or error
                self.damaged = True
        if not isinstance(data, bytes):
            budget.count_file(data.bytes_read)
        if self.samples == 0 and failure is not None:
            raise failure
        self._require_enough()

    def _count(self, samples: Buffer, max_seconds: float) -> None:
        form = cast("Format", self.format)
        count = self.samples + len(samples) // form.bytes_per_sample
        if count > max_seconds * form.sample_rate:
            raise VoiceError(ErrorCode.TOO_LONG, "The recording is too long.")
        self.samples = count

    def _require_enough(self) -> None:
        if self.samples == 0 and self.damaged:
            raise _corrupt("nothing in it can be decoded")
        if self.samples == 0:
            raise VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it holds no audio.")
        if self._broken > _MAX_BROKEN_SHARE * self._packets:
            raise _corrupt(f"{self._broken} of its {self._packets} packets cannot be decoded")

    def _decode_link(
        self, data: bytes | IncomingFile, budget: DecodingBudget, bytes_per_second: float
    ) -> Iterator[Buffer]:
        if isinstance(data, bytes) and self._container in _MATROSKA:
            data, is_damaged = mend_matroska(data)
            self.damaged |= is_damaged
        has_times = self._container not in {Container.MP3, Container.ADTS}
        timeline = Timeline(has_times=has_times, is_damaged=self.damaged)
        with _open(data, self._container) as source:
            stream = _audio_stream(source, data, self._container)
            trimmer = FrameTrimmer(stream.codec_context)
            for packet, frame in self._frames(source, stream, budget, timeline):
                begin, stop = trimmer.find_part(frame, packet)
                if begin < stop:
                    if self.format is None:
                        self.format = _accepted_format(frame, stream, bytes_per_second)
                    yield from self._adapt(frame, self.format, begin, stop)
            yield from self._flush()
            if self.format is not None and isinstance(data, bytes):
                timeline.end(_declared_seconds(source, stream, data), self.format.sample_rate)
            has_several = len(source.streams.audio) > 1
        if not isinstance(data, bytes):
            unread = data.bytes_read - timeline.last_byte if self._container in _MATROSKA else 0
            self.needs_whole |= has_several or data.is_joined or unread > _LONGEST_INDEX
        elif self.damaged:
            timeline.end_of_bytes(len(data))
        self.missing_seconds += timeline.missing
        self.damaged |= timeline.missing > 0

    def _frames(
        self,
        source: InputContainer,
        stream: AudioStream,
        budget: DecodingBudget,
        timeline: Timeline,
    ) -> Iterator[tuple[Packet[AudioStream], AudioFrame]]:
        try:
            for packet in source.demux(stream):
                budget.count_packet(packet.size)
                frames = self._decode(stream.codec_context, packet)
                timeline.count_bytes(packet, is_heard=bool(frames))
                if not frames:
                    budget.count_fruitless_packet()
                for frame in frames:
                    budget.count_frame(frame.samples, frame.sample_rate)
                    timeline.add(frame, after_broken=self._is_after_broken)
                    self._is_after_broken = False
                    yield packet, frame
        except av.error.FFmpegError as error:
            # The container breaks off in the middle; what came before is kept.
            _refuse_if_too_complex(error)
            self.damaged = True

    def _decode(self, context: AudioCodecContext, packet: Packet[AudioStream]) -> list[AudioFrame]:
        self._packets += 1
        self.damaged |= packet.is_corrupt
        try:
            frames = context.decode(packet)
        except av.error.FFmpegError as error:
            _refuse_if_too_complex(error)
            self.damaged = self._is_after_broken = True
            self._broken += 1
            self._broken_in_a_row += 1
            if self._broken_in_a_row > _MAX_BROKEN_IN_A_ROW:
                raise _corrupt("nothing in it can be decoded") from error
            return []
        self._broken_in_a_row = 0
        return frames

    def _adapt(self, frame: AudioFrame, expected: Format, begin: int, end: int) -> Iterator[Buffer]:
        is_same_type = sample_type(frame.format.name) == expected.sample_type
        if frame.sample_rate == expected.sample_rate and is_same_type:
            yield from self._flush()
            yield read_samples(frame, expected, begin, end)
            return
        if self._changed is None or not self._changed.fits(frame):
            yield from self._flush()
            self._changed = FrameConverter(frame, expected)
        yield from self._changed.push(cut_frame(frame, begin, end))

    def _flush(self) -> Iterator[Buffer]:
        changed, self._changed = self._changed, None
        if changed is not None:
            yield from changed.push(None)


def _open(data: bytes | IncomingFile, container: Container) -> InputContainer:
    def refuse_reference(url: str, _flags: int, _options: dict[str, str]) -> NoReturn:
        raise PermissionError(errno.EACCES, "a recording must not refer to anything", url[:80])

    is_whole = isinstance(data, bytes)
    try:
        return av.open(
            io.BytesIO(data) if isinstance(data, bytes) else data,
            mode="r",
            format=_DEMUXERS[container],
            container_options=_OPTIONS if is_whole else _OPTIONS_WHILE_IT_COMES,
            buffer_size=_BUFFER_BYTES if is_whole else _BUFFER_BYTES_WHILE_IT_COMES,
            metadata_errors="replace",
            io_open=refuse_reference,
        )
    except av.error.FFmpegError as error:
        _refuse_if_too_complex(error)
        raise _corrupt("its beginning cannot be read") from error


def _loudest_stream(data: bytes, container: Container) -> int | None:
    """Return the index of the loudest audio stream; None if there are not several."""
    with _open(data, container) as source:
        # A stream without a decoder has no context, although the library's types say otherwise.
        streams = [
            stream
            for stream in source.streams.audio
            if (context := cast("AudioCodecContext | None", stream.codec_context)) is not None
            and context.codec.name in _CODECS
        ][:_MOST_COMPARED]
        if len(streams) < 2:  # noqa: PLR2004
            return streams[0].index if streams else None
        for stream in streams:
            stream.codec_context.thread_count = 1
        powers = dict.fromkeys((stream.index for stream in streams), 0.0)
        packets = 0
        with contextlib.suppress(av.error.FFmpegError):
            for packet in source.demux(streams):
                packets += 1
                if packets > _MOST_COMPARED_PACKETS:
                    break
                with contextlib.suppress(av.error.FFmpegError):
                    for frame in packet.decode():
                        powers[packet.stream.index] += frame_energy(cast("AudioFrame", frame))
    # The first one of several that are equally loud.
    return max(powers, key=lambda index: powers[index])


def _audio_stream(
    source: InputContainer, data: bytes | IncomingFile, container: Container
) -> AudioStream:
    """Return the stream to decode, and discard the others; of a whole file it is the loudest."""
    streams = source.streams.audio
    is_choice = len(streams) > 1 and isinstance(data, bytes)
    index = _loudest_stream(cast("bytes", data), container) if is_choice else None
    stream = next((each for each in streams if each.index == index), next(iter(streams), None))
    if stream is None:
        raise VoiceError(ErrorCode.NO_AUDIO, "The recording holds no audio.")
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
    weights = channel_weights(frame)
    room = int(bytes_per_second / (rate * WIDTHS[sample_type(frame.format.name)]))
    by_weight = sorted(range(channels), key=lambda channel: -weights[channel])
    sent = tuple(sorted(by_weight[: max(room, 1)]))
    sent_weights = tuple(weights[channel] for channel in sent)
    codec = stream.codec_context.codec.name
    return Format(codec, frame.format.name, rate, channels, sent, sent_weights)


def _declared_seconds(source: InputContainer, stream: AudioStream, data: bytes) -> float:
    """Return how long the file says that its sound is; 0 if it does not say."""
    if source.format.name in {"mp3", "aac"} and not _FRAMES_COUNTED.search(data, 0, 8192):
        return 0.0  # it was guessed from the first frames
    if source.format.name == "wav":
        return wav_seconds(data)  # FFmpeg corrects it
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    if len(source.streams) == 1 and source.duration is not None:
        return source.duration / av.time_base
    return 0.0


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
    """Fill the codecs' tables and specialise Python's code, before processes are forked."""
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
        self,
        descriptor: int,
        container: Container,
        most_bytes: int,
        before_read: Callable[[], None],
    ) -> None:
        self._descriptor = descriptor
        self._before_read = before_read
        self._container = container
        self._last = b""
        self.most_bytes = most_bytes
        self.bytes_read = 0
        self.is_joined = False

    def read(self, size: int) -> bytes:
        self._before_read()
        piece = os.read(self._descriptor, min(size, self.most_bytes - self.bytes_read))
        if self.bytes_read:
            # The beginning of another file may lie in two pieces.
            self.is_joined |= begins_another_link(self._last + piece, self._container)
        self._last = piece[-_OVERLAP:] if self.bytes_read else b""
        self.bytes_read += len(piece)
        return piece
