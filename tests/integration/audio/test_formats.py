"""Every format that browsers and people send, decoded by real decoding processes."""

from __future__ import annotations

import io
import struct
from functools import partial
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from shared.speech.decoding.demuxing import Demuxer
from shared.speech.decoding.recording import DecodeLimits
from shared.voices.media import Container
from tests.integration.audio.recordings import (
    FLAVOURS,
    raw_wav,
    recording,
    voice_like,
    with_cover_art,
    with_video,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from shared.speech.decoding.decoder import Decoder

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DecodeLimits()
LOSSLESS = ["16-bit wav", "24-bit wav", "float wav", "flac", "apple lossless file"]


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (96_000, 2)])
@pytest.mark.parametrize("name", FLAVOURS)
async def test_every_format_is_decoded_at_its_own_rate(
    decoder: Decoder, name: str, rate: int, channels: int
) -> None:
    flavour = FLAVOURS[name]
    # The encoder for MP3 knows nothing above 48 kHz; browsers and phones do not send it either.
    rate = min(rate, 48_000) if name == "mp3" else rate
    decoded = await decoder.decode(recording(name, 1.5, rate, channels), limits=LIMITS)
    assert decoded.container is flavour.container
    assert decoded.sample_rate == (flavour.only_rate or rate)
    assert decoded.channels == (flavour.only_channels or channels)
    # AAC and Vorbis encoders end on a whole block of up to 2048 samples.
    assert 1.5 <= decoded.seconds <= 1.5 + 2048 / rate
    assert (decoded.damaged, decoded.missing_seconds) == (False, 0.0)
    assert decoded.confined


@pytest.mark.parametrize("name", LOSSLESS)
async def test_lossless_formats_return_exactly_the_same_samples(
    decoder: Decoder, name: str
) -> None:
    samples = voice_like(1.5, 16_000)
    left_and_right = np.stack([samples, samples])
    data = write(FLAVOURS[name], left_and_right, 16_000)
    decoded = await decoder.decode(memoryview(data), limits=LIMITS)
    assert decoded.samples.dtype == np.float32
    np.testing.assert_allclose(decoded.samples, samples, atol=2**-15)


@pytest.mark.parametrize("name", sorted(set(FLAVOURS) - set(LOSSLESS) - {"8-bit wav"}))
async def test_lossy_formats_return_nearly_the_same_samples(decoder: Decoder, name: str) -> None:
    samples = voice_like(2.0, 48_000)
    channels = np.stack([samples] * (FLAVOURS[name].only_channels or 1))
    decoded = await decoder.decode(write(FLAVOURS[name], channels, 48_000), limits=LIMITS)
    lag = _lag(decoded.samples, samples)
    heard = decoded.samples[lag:][: len(samples) - 4096]
    assert np.corrcoef(heard, samples[: len(heard)])[0, 1] > 0.98


@pytest.mark.parametrize(("channels", "rate", "bits"), [(8, 48_000, 16), (8, 192_000, 32)])
async def test_a_voice_on_any_channel_is_kept_whatever_the_others_contain(
    decoder: Decoder, channels: int, rate: int, bits: int
) -> None:
    samples = voice_like(1.2, rate)
    scaled = (samples * (2.0 ** (bits - 1) - 256)).astype(f"<i{bits // 8}")
    sound = raw_wav(
        np.repeat(scaled, channels).tobytes(), sample_rate=rate, channels=channels, bits=bits
    )
    decoded = await decoder.decode(sound, limits=LIMITS)
    assert (decoded.channels, decoded.sample_rate) == (channels, rate)
    np.testing.assert_allclose(decoded.samples, samples, atol=0.01)


@pytest.mark.parametrize(
    "make",
    [
        partial(with_video, "webm", "libvpx", "libopus"),
        partial(with_video, "mp4", "libx264", "aac"),
        partial(with_video, "matroska", "mpeg4", "libopus"),
        partial(with_cover_art, FLAVOURS["mp3"]),
        partial(with_cover_art, FLAVOURS["flac"]),
        partial(with_cover_art, FLAVOURS["fragmented mp4 from Safari or Chrome"]),
    ],
)
async def test_only_the_sound_of_a_film_and_of_music_with_cover_art_is_decoded(
    decoder: Decoder, make: Callable[[], bytes]
) -> None:
    decoded = await decoder.decode(make(), limits=LIMITS)
    assert decoded.seconds == pytest.approx(2.0, abs=0.05)


def _lag(heard: npt.NDArray[np.float32], said: npt.NDArray[np.float32]) -> int:
    """How many samples later than `said` the sound in `heard` begins."""
    size = 1 << 18
    spectrum = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size))
    return int(np.argmax(np.fft.irfft(spectrum, size)[:4096]))


@pytest.mark.parametrize("name", ["raw aac", "webm from Chrome or Firefox", "flac"])
async def test_a_long_recording_needs_no_more_memory_than_a_short_one(
    decoder: Decoder, name: str
) -> None:
    limits = DecodeLimits(max_seconds=120, memory_bytes=12 << 20)
    decoded = await decoder.decode(recording(name, 90, 16_000), limits=limits)
    assert decoded.seconds == pytest.approx(90, abs=0.2)


def samples_by_ffmpeg(data: bytes) -> int:
    """How many samples FFmpeg returns if it removes the hidden ones."""
    with av.open(io.BytesIO(data), mode="r") as source:
        return sum(frame.samples for frame in source.decode(source.streams.audio[0]))


def samples_by_us(data: bytes, container: Container) -> int:
    demuxer = Demuxer(data, container)
    for _ in demuxer.chunks(10.0, 1 << 24):
        pass
    return demuxer.samples


@pytest.mark.parametrize("name", FLAVOURS)
async def test_every_container_has_the_same_samples_hidden(name: str) -> None:
    data = recording(name, 1.5, 44_100)

    assert samples_by_us(data, FLAVOURS[name].container) == samples_by_ffmpeg(data)


@pytest.mark.parametrize(
    ("begin", "milliseconds"), [(0, 2_000), (1_024, 500), (5_000, 1_000), (48_000, 2_000)]
)
async def test_an_edit_list_hides_the_same_samples(begin: int, milliseconds: int) -> None:
    data = bytearray(recording("m4a file"))
    struct.pack_into(">Ii", data, data.index(b"elst") + 12, milliseconds, begin)
    edited = bytes(data)

    assert samples_by_us(edited, Container.MP4) == samples_by_ffmpeg(edited)
