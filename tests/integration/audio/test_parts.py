"""Recordings that are joined, damaged, or begin in the middle: all that can be heard is heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from shared.speech.decoding.recording import DecodeLimits, loudness_dbfs
from shared.voices.media import SNIFF_BYTES, Container, sniff
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import FLAVOURS, recording, voice_like

if TYPE_CHECKING:
    from pathlib import Path

    from shared.speech.decoding.decoder import Decoder

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DecodeLimits()
OPUS, VORBIS, WEBM = "ogg opus from Firefox", "ogg vorbis", "webm from Chrome or Firefox"


@pytest.mark.parametrize("name", FLAVOURS)
async def test_joined_files_whose_rate_or_channels_change_are_one_recording(
    decoder: Decoder, name: str
) -> None:
    data = recording(name, 2, 44_100) + recording(name, 3, 16_000, 2)

    decoded = await decoder.decode(data, limits=LIMITS)

    rate = decoded.sample_rate
    assert decoded.seconds == pytest.approx(5.0, abs=0.15)
    assert (decoded.damaged, decoded.missing_seconds) == (False, 0.0)
    levels = [
        loudness_dbfs(part, rate)
        for part in (decoded.samples[rate // 2 : rate], decoded.samples[4 * rate : -rate // 2])
    ]
    assert levels[0] == pytest.approx(levels[1], abs=1.0)


@pytest.mark.parametrize(("first", "then"), [(OPUS, VORBIS), (VORBIS, OPUS)])
async def test_joined_files_of_other_codecs_are_one_recording(
    decoder: Decoder, first: str, then: str
) -> None:
    data = recording(first, 2, 44_100) + recording(then, 3, 44_100)
    decoded = await decoder.decode(data, limits=LIMITS)
    assert decoded.seconds == pytest.approx(5.0, abs=0.1)
    assert not decoded.damaged


async def test_a_part_of_another_rate_is_heard_at_its_pitch(decoder: Decoder) -> None:
    data = recording("16-bit wav", 2, 48_000) + recording("16-bit wav", 2, 16_000)
    decoded = await decoder.decode(data, limits=LIMITS)
    spectrum = np.abs(np.fft.rfft(decoded.samples[2 * 48_000 + 4_800 :][:48_000]))
    assert np.argmax(spectrum) == pytest.approx(220, abs=2)


@pytest.mark.parametrize("tags", [2, 3])
async def test_several_tags_before_a_file_are_no_files(decoder: Decoder, tags: int) -> None:
    tag = b"ID3\4\0\0\0\0\0\x20" + b"TIT2\0\0\0\x08\0\0\0ID3\4\0\0" + bytes(15)
    decoded = await decoder.decode(tag * tags + recording("mp3"), limits=LIMITS)
    assert decoded.seconds == pytest.approx(2.0, abs=0.05)
    assert not decoded.damaged


async def test_too_many_joined_files_are_refused(decoder: Decoder) -> None:
    data = recording(OPUS, 0.05) * 100
    with pytest.raises(VoiceError) as refused:
        await decoder.decode(data, limits=LIMITS)
    assert refused.value.code is ErrorCode.TOO_COMPLEX


def damage(data: bytes, size: int) -> bytes:
    middle = len(data) // 2
    noise = np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes()
    return data[:middle] + noise + data[middle + size :]


@pytest.mark.parametrize("name", [WEBM, "matroska", OPUS, "mp3", "raw aac", "m4a file"])
async def test_a_damaged_middle_is_told_with_its_length_and_the_rest_is_heard(
    decoder: Decoder, name: str
) -> None:
    data = recording(name, 5)

    decoded = await decoder.decode(damage(data, len(data) // 10), limits=LIMITS)

    assert decoded.damaged
    assert 0.2 < decoded.missing_seconds < 2.5
    assert decoded.seconds + decoded.missing_seconds == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("name", ["16-bit wav", "flac", "mp3", "matroska"])
async def test_the_missing_end_of_a_file_that_states_its_length_is_told(
    decoder: Decoder, name: str
) -> None:
    data = recording(name, 5)
    decoded = await decoder.decode(data[: len(data) * 6 // 10], limits=LIMITS)
    assert decoded.damaged
    assert decoded.seconds + decoded.missing_seconds == pytest.approx(5.0, abs=0.1)


ICY = b"ICY 200 OK\r\nicy-name: Radio\r\nicy-br:128\r\n\r\n"


@pytest.mark.parametrize(
    ("name", "before"),
    [("mp3", bytes(1_000)), ("raw aac", bytes(7) + ICY), ("mp3", b"cut"), ("raw aac", b"cut")],
)
async def test_a_stream_is_recognised_behind_what_is_no_sound(
    decoder: Decoder, name: str, before: bytes
) -> None:
    data = recording(name, 3)
    data = data[313:] if before == b"cut" else before + data
    decoded = await decoder.decode(data, limits=LIMITS)
    assert decoded.container is FLAVOURS[name].container
    assert decoded.seconds == pytest.approx(3.0, abs=0.1)


async def test_other_files_are_not_taken_for_streams() -> None:
    noise = np.random.default_rng(5).integers(0, 256, SNIFF_BYTES, np.uint8).tobytes()
    for data in (b"A text about sound. " * 4_000, noise, bytes(100_000), b"I'm free of it" * 100):
        assert sniff(b"no" + data) is None


async def test_a_film_without_its_type_is_an_old_quicktime_film(decoder: Decoder) -> None:
    data = recording("m4a file", 2)
    size = int.from_bytes(data[:4], "big")
    # Its tables count from the beginning, so the box is replaced by one of the same size.
    old = size.to_bytes(4, "big") + b"wide" + bytes(size - 8) + data[size:]
    decoded = await decoder.decode(old, limits=LIMITS)
    assert decoded.container is Container.MP4
    assert decoded.seconds == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(("muxer", "loud"), [("mp4", 0), ("matroska", 1)])
async def test_the_loudest_of_several_tracks_is_heard(
    decoder: Decoder, tmp_path: Path, muxer: str, loud: int
) -> None:
    path = tmp_path / "tracks"
    with av.open(str(path), "w", format=muxer) as container:
        streams = [container.add_stream("aac", rate=48_000, layout="mono") for _ in range(2)]
        for number, stream in enumerate(streams):
            samples = voice_like(2, 48_000, level=0.3 if number == loud else 0.0)
            frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
            frame.sample_rate = 48_000
            container.mux([*stream.encode(frame), *stream.encode(None)])

    decoded = await decoder.decode(path.read_bytes(), limits=LIMITS)

    assert loudness_dbfs(decoded.samples, 48_000) > -20
