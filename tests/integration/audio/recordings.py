"""Makes recordings for tests, in every container and with every defect."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import av
import numpy as np
from av.stream import Disposition

from shared.voices.media import Container

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from av.audio.stream import AudioStream
    from av.video.stream import VideoStream


@dataclass(frozen=True, slots=True)
class Flavour:
    """One way of sending a recording: a container, a codec and how the container is written."""

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


def write(
    flavour: Flavour,
    channels: npt.NDArray[np.float32],
    sample_rate: int,
    *,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Encode float32 [channels, N] as `flavour`."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(channels)]
    rate = flavour.only_rate or sample_rate
    file = io.BytesIO()
    with av.open(file, "w", format=flavour.muxer, options=dict(flavour.options)) as container:
        container.metadata.update(metadata or {})
        stream = cast(
            "AudioStream",
            container.add_stream(
                flavour.codec, rate=rate, layout=layout, options=dict(flavour.codec_options)
            ),
        )
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(channels), format="fltp", layout=layout
        )
        frame.sample_rate = sample_rate
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
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
        video = cast(
            "VideoStream",
            container.add_stream(video_codec, rate=25, width=64, height=64, pix_fmt="yuv420p"),
        )
        audio = cast("AudioStream", container.add_stream(audio_codec, rate=48_000, layout="mono"))
        for number in range(round(25 * seconds)):
            picture = np.full((64, 64, 3), number * 5 % 256, dtype=np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        resampler = av.AudioResampler(format=audio.format, layout="mono", rate=48_000)
        samples = voice_like(seconds, 48_000)
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.sample_rate = 48_000
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(audio.encode(piece))
        container.mux(audio.encode(None))
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


def flac_bomb(blocks: int) -> bytes:
    """FLAC in which every 15 bytes are 65535 samples of silence: 1.4 s at 48 kHz each.

    The frames follow the format's description (RFC 9639, section 9): constant subframes.
    """
    info = struct.pack(">HH3s3s", 65_535, 65_535, bytes(3), bytes(3))
    # 20 bits of sample rate, 3 of channels - 1, 5 of bits - 1, 36 of total samples (unknown)
    info += ((48_000 << 44) | (0 << 41) | (15 << 36)).to_bytes(8, "big") + bytes(16)
    file = bytearray(b"fLaC" + bytes([0x80, 0, 0, len(info)]) + info)
    for number in range(blocks):
        header = bytes([0xFF, 0xF8, 0x7A, 0x08]) + chr(number).encode() + b"\xff\xfe"
        header += bytes([_crc(header, 8, 0x07)])
        frame = header + bytes([0x00, 0x00, 0x01])
        file += frame + _crc(frame, 16, 0x8005).to_bytes(2, "big")
    return bytes(file)


def _crc(data: bytes, width: int, polynomial: int) -> int:
    remainder = 0
    for byte in data:
        remainder ^= byte << (width - 8)
        for _ in range(8):
            carry = remainder >> (width - 1) & 1
            remainder = (remainder << 1 & ((1 << width) - 1)) ^ (polynomial if carry else 0)
    return remainder


def opus_bomb(seconds: int) -> bytes:
    """WebM in which every packet is one byte long and 60 ms of silence (RFC 6716, section 3.1)."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"live": "1"}) as container:
        stream = container.add_stream("libopus", rate=48_000, layout="mono")
        stream.codec_context.open()
        for number in range(seconds * 1000 // 60):
            packet = av.Packet(bytes([3 << 3]))
            packet.stream = stream
            packet.pts = packet.dts = number * 60
            packet.time_base = Fraction(1, 1000)
            container.mux(packet)
    return file.getvalue()


def box(name: bytes, *content: bytes) -> bytes:
    """One MP4 box."""
    joined = b"".join(content)
    return struct.pack(">I4s", 8 + len(joined), name) + joined


def mp4_that_refers_to(url: str) -> bytes:
    """MP4 whose data reference says that its samples are at `url` and not in the file."""
    honest = recording("m4a file")
    own = box(b"url ", bytes([0, 0, 0, 1]))
    foreign = box(b"url ", bytes(4), url.encode() + b"\0")
    return replace_box(honest, own, foreign)


_AROUND_A_REFERENCE: Final = (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref")


def replace_box(
    data: bytes, old: bytes, new: bytes, around: Sequence[bytes] = _AROUND_A_REFERENCE
) -> bytes:
    """Replace `old` in an MP4 file and correct the sizes of the boxes `around` it."""
    at = data.index(old)
    grown = bytearray(data[:at] + new + data[at + len(old) :])
    for name in around:
        start = grown.index(name) - 4
        (size,) = struct.unpack_from(">I", grown, start)
        struct.pack_into(">I", grown, start, size + len(new) - len(old))
    return bytes(grown)


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
        resampler = av.AudioResampler(format=audio.format, layout="mono", rate=48_000)
        frame = av.AudioFrame.from_ndarray(
            voice_like(2.0, 48_000)[None, :], format="fltp", layout="mono"
        )
        frame.sample_rate = 48_000
        packets = [
            packet
            for piece in (*resampler.resample(frame), *resampler.resample(None), None)
            for packet in audio.encode(piece)
        ]
        attached = av.Packet(picture.getvalue())
        attached.stream = cover
        attached.pts = attached.dts = 0
        container.mux(attached)
        container.mux(packets)
    return file.getvalue()


def many_streams(count: int) -> bytes:
    """Matroska that declares `count` audio tracks and holds no sound (RFC 9559, section 5)."""
    tracks = b"".join(
        _element(b"\xae", _element(b"\xd7", number.to_bytes(3, "big")), _TRACK)
        for number in range(1, count + 1)
    )
    return (
        _element(b"\x1a\x45\xdf\xa3", _element(b"\x42\x82", b"webm"))
        + b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"
        + _element(b"\x16\x54\xae\x6b", tracks)
    )


def _element(name: bytes, *content: bytes) -> bytes:
    joined = b"".join(content)
    return name + (len(joined) | 1 << 56).to_bytes(8, "big") + joined


_TRACK: Final = _element(b"\x83", b"\x02") + _element(b"\x86", b"A_OPUS")


def endless_table(data: bytes) -> bytes:
    """MP4 whose table of samples says that there are four thousand million of one byte each."""
    at = data.index(b"stsz") + 4
    return data[:at] + struct.pack(">III", 0, 1, 2**32 - 1) + data[at + 12 :]


def hidden_opus(packets: int) -> bytes:
    """WebM of Opus packets of 120 ms in 62 bytes each; the container has all of it discarded.

    DiscardPadding (RFC 9559, section 5.1.3.5.7) is in nanoseconds.
    """
    noise = np.random.default_rng(1).integers(0, 256, (packets, 60), dtype=np.uint8)
    # Six frames of 20 ms in stereo, all of the same size (RFC 6716, section 3.2.5).
    toc = bytes([31 << 3 | 1 << 2 | 3, 6])
    hidden = _element(b"\x75\xa2", (120_000_000).to_bytes(4, "big"))
    groups = [
        _element(b"\xa0", _element(b"\xa1", b"\x81\0\0\0", toc, each.tobytes()), hidden)
        for each in noise
    ]
    return _opus_in_webm(groups)


def _opus_in_webm(groups: Sequence[bytes]) -> bytes:
    head = b"OpusHead" + struct.pack("<BBHIHB", 1, 2, 0, 48_000, 0, 0)
    sound = _element(
        b"\xe1", _element(b"\xb5", struct.pack(">d", 48_000)), _element(b"\x9f", b"\2")
    )
    track = _element(
        b"\xae",
        _element(b"\xd7", b"\1"),
        _element(b"\x73\xc5", b"\1"),
        _TRACK,
        _element(b"\x63\xa2", head),
        sound,
    )
    return (
        _element(b"\x1a\x45\xdf\xa3", _element(b"\x42\x82", b"webm"))
        + b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"
        + _element(b"\x16\x54\xae\x6b", track)
        + _element(b"\x1f\x43\xb6\x75", _element(b"\xe7", b"\0"), *groups)
    )


def edited_again_and_again(edits: int) -> bytes:
    """MP4 whose edit list plays one millisecond of the same place, again and again."""
    data = recording("m4a file")
    start = data.index(b"elst") - 4
    (size,) = struct.unpack_from(">I", data, start)
    edit = struct.pack(">IiHH", 1, 30_000, 1, 0)
    edit_list = box(b"elst", struct.pack(">II", 0, edits), edit * edits)
    around = (b"moov", b"trak", b"edts")
    return replace_box(data, data[start : start + size], edit_list, around)


def huge_table(samples: int) -> bytes:
    """MP4 whose table says that there are so many samples of one byte each."""
    data = recording("m4a file")
    at = data.index(b"stsz") + 4
    data = data[:at] + struct.pack(">III", 0, 1, samples) + data[at + 12 :]
    at = data.index(b"stsc") + 4
    return data[:at] + struct.pack(">IIIII", 0, 1, 1, samples, 1) + data[at + 20 :]
