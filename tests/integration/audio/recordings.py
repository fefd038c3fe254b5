"""Makes recordings for tests, as recorders and editors do, in every container."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import av
import numpy as np
from av.stream import Disposition

from shared.voices.media import Container

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet


@dataclass(frozen=True, slots=True)
class Flavour:
    """A container, a codec and how the container is written."""

    container: Container
    muxer: str
    codec: str
    options: Mapping[str, str] = field(default_factory=dict)
    codec_options: Mapping[str, str] = field(default_factory=dict)
    only_rate: int | None = None
    only_channels: int | None = None


_FRAGMENTED: Final = {
    "movflags": "+frag_keyframe+empty_moov+default_base_moof",
    "frag_duration": "100000",
}

_EXPERIMENTAL: Final = MappingProxyType({"strict": "experimental"})

FLAVOURS: Final[Mapping[str, Flavour]] = MappingProxyType(
    {
        "webm from Chrome or Firefox": Flavour(
            Container.WEBM, "webm", "libopus", {"live": "1"}, only_rate=48_000
        ),
        "matroska": Flavour(Container.MATROSKA, "matroska", "libopus", only_rate=48_000),
        "fragmented mp4 from Safari or Chrome": Flavour(
            Container.MP4, "mp4", "aac", dict(_FRAGMENTED)
        ),
        "fragmented mp4 with opus from Chrome": Flavour(
            Container.MP4, "mp4", "libopus", dict(_FRAGMENTED), only_rate=48_000
        ),
        "m4a file": Flavour(Container.MP4, "ipod", "aac"),
        "apple lossless file": Flavour(Container.MP4, "ipod", "alac"),
        "ogg opus from Firefox": Flavour(Container.OGG, "ogg", "libopus", only_rate=48_000),
        "ogg vorbis": Flavour(
            Container.OGG, "ogg", "vorbis", codec_options=_EXPERIMENTAL, only_channels=2
        ),
        "16-bit wav": Flavour(Container.WAV, "wav", "pcm_s16le"),
        "24-bit wav": Flavour(Container.WAV, "wav", "pcm_s24le"),
        "8-bit wav": Flavour(Container.WAV, "wav", "pcm_u8"),
        "float wav": Flavour(Container.WAV, "wav", "pcm_f32le"),
        "mp3": Flavour(Container.MP3, "mp3", "libmp3lame"),
        "flac": Flavour(Container.FLAC, "flac", "flac"),
        "raw aac": Flavour(Container.ADTS, "adts", "aac"),
    }
)


def voice_like(
    seconds: float, sample_rate: int, *, level: float = 0.3, hz: float = 220.0
) -> npt.NDArray[np.float32]:
    """A tone with harmonics that swells and fades four times a second, float32 [N]."""
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    tone = sum(np.sin(2 * np.pi * hz * k * time) / k for k in (1, 2, 3))
    envelope = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * time)
    return np.asarray(level * tone * envelope, dtype=np.float32)


def encoded_sound(
    stream: AudioStream, channels: npt.NDArray[np.float32], rate: int
) -> Iterator[Packet[Any]]:
    """Encode float32 [channels, N]."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(channels)]
    resampler = av.AudioResampler(
        format=stream.format, layout=layout, rate=stream.codec_context.sample_rate
    )
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(channels), format="fltp", layout=layout)
    frame.sample_rate = rate
    for piece in (*resampler.resample(frame), *resampler.resample(None), None):
        yield from stream.encode(piece)


def pictures(container: OutputContainer, codec: str, count: int) -> Iterator[Packet[Any]]:
    """Encode moving pictures as a first stream."""
    video = container.add_stream(codec, rate=25, width=64, height=64, pix_fmt="yuv420p")
    for number in range(count):
        picture = np.full((64, 64, 3), number * 5 % 256, dtype=np.uint8)
        yield from cast("Any", video).encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
    yield from cast("Any", video).encode(None)


def write(flavour: Flavour, channels: npt.NDArray[np.float32], sample_rate: int) -> bytes:
    """Encode float32 [channels, N] as `flavour`."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(channels)]
    rate = flavour.only_rate or sample_rate
    file = io.BytesIO()
    with av.open(file, "w", format=flavour.muxer, options=dict(flavour.options)) as container:
        stream = cast(
            "AudioStream",
            container.add_stream(
                flavour.codec, rate=rate, layout=layout, options=dict(flavour.codec_options)
            ),
        )
        container.mux(list(encoded_sound(stream, channels, sample_rate)))
    return file.getvalue()


def recording(
    name: str, seconds: float = 2.0, sample_rate: int = 48_000, channels: int = 1
) -> bytes:
    """A voice-like recording in the flavour called `name`."""
    flavour = FLAVOURS[name]
    samples = voice_like(seconds, sample_rate)
    return write(flavour, np.stack([samples] * (flavour.only_channels or channels)), sample_rate)


def with_video(muxer: str, video_codec: str, audio_codec: str, seconds: float = 2.0) -> bytes:
    """A film: moving pictures first, voice-like sound second."""
    file = io.BytesIO()
    with av.open(file, "w", format=muxer) as container:
        frames = pictures(container, video_codec, round(25 * seconds))
        first = next(frames)
        audio = cast("AudioStream", container.add_stream(audio_codec, rate=48_000, layout="mono"))
        container.mux([first, *frames])
        container.mux(list(encoded_sound(audio, voice_like(seconds, 48_000)[None], 48_000)))
    return file.getvalue()


def raw_wav(
    data: bytes,
    *,
    sample_rate: int = 48_000,
    channels: int = 1,
    bits: int = 16,
    code: int = 1,
    declared: int | None = None,
) -> bytes:
    """A WAV file around `data` whose header may be false."""
    size = len(data) if declared is None else declared
    block = channels * bits // 8
    header = struct.pack(
        "<HHIIHH",
        code,
        channels,
        sample_rate,
        min(sample_rate * block, 2**32 - 1),
        block % 65536,
        bits,
    )
    body = struct.pack("<4sI", b"fmt ", 16) + header + struct.pack("<4sI", b"data", size) + data
    return struct.pack("<4sI4s", b"RIFF", min(size + 36, 2**32 - 1), b"WAVE") + body


def with_cover_art(flavour: Flavour) -> bytes:
    """Music with cover art: a picture is attached as a second stream."""
    picture = io.BytesIO()
    with av.open(picture, "w", format="image2pipe") as container:
        stream = container.add_stream("mjpeg", rate=1, width=640, height=640, pix_fmt="yuvj420p")
        noise = np.random.default_rng(1).integers(0, 255, (640, 640, 3), dtype=np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(noise, format="rgb24")))
        container.mux(stream.encode(None))
    file = io.BytesIO()
    with av.open(file, "w", format=flavour.muxer) as container:
        audio = cast("AudioStream", container.add_stream(flavour.codec, rate=48_000, layout="mono"))
        cover = container.add_mux_stream("mjpeg", width=640, height=640)
        cover.disposition = Disposition.attached_pic
        packets = list(encoded_sound(audio, voice_like(2.0, 48_000)[None], 48_000))
        attached = av.Packet(picture.getvalue())
        attached.stream = cover
        attached.pts = attached.dts = 0
        container.mux(attached)
        container.mux(packets)
    return file.getvalue()
