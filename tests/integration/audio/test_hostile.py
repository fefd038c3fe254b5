"""Recordings that mean no good: each ends in a result or in a clean error, and others go on."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.convert.audio.recording import DecodeLimits, Recording
from shared.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import (
    FLAVOURS,
    endless_table,
    flac_bomb,
    many_streams,
    mp4_that_refers_to,
    opus_bomb,
    raw_wav,
    recording,
    voice_like,
)

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from functions.convert.audio.decoding import Decoder

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DecodeLimits()
MAGIC = {
    "matroska": b"\x1aE\xdf\xa3",
    "mp4": b"\0\0\0\x20ftypisom",
    "ogg": b"OggS",
    "wav": b"RIFF\0\0\0\0WAVE",
    "mp3": b"\xff\xfb\x90\x64",
    "id3": b"ID3\x04\0\0\0\0\0\0",
    "flac": b"fLaC",
    "adts": b"\xff\xf1\x50\x80",
}


async def code_of(decoder: Decoder, data: bytes, limits: DecodeLimits = LIMITS) -> str:
    """The error code a recording ends with, or "" if it is accepted."""
    try:
        await decoder.decode(data, limits=limits)
    except VoiceError as error:
        return error.code
    return ""


def pcm16(samples: npt.NDArray[np.float32]) -> bytes:
    return (samples * 32767).astype("<i2").tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"hello, this is text",
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
        b"#EXTM3U\nhttp://127.0.0.1/\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
        b"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'></MPD>",
        b"v=0\r\nm=audio 1234 RTP/AVP 0\r\n",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"PK\x03\x04" + bytes(100),
        b"#!AMR\n" + bytes(100),
        bytes(1000),
    ],
)
async def test_what_is_not_one_of_the_containers_is_never_opened(
    decoder: Decoder, data: bytes
) -> None:
    assert await code_of(decoder, data) == ErrorCode.UNSUPPORTED_FORMAT


async def test_nothing_at_all_holds_no_audio(decoder: Decoder) -> None:
    assert await code_of(decoder, b"") == ErrorCode.NO_AUDIO


async def test_more_bytes_than_allowed_are_not_looked_at(decoder: Decoder) -> None:
    limits = DecodeLimits(max_bytes=1000)
    assert await code_of(decoder, bytes(1001), limits) == ErrorCode.TOO_LARGE


@pytest.mark.parametrize("magic", MAGIC)
@pytest.mark.parametrize("filling", ["zeros", "ones", "noise"])
async def test_magic_bytes_before_rubbish_make_no_recording(
    decoder: Decoder, magic: str, filling: str
) -> None:
    rubbish = {
        "zeros": bytes(20_000),
        "ones": b"\xff" * 20_000,
        "noise": np.random.default_rng(1).bytes(20_000),
    }
    code = await code_of(decoder, MAGIC[magic] + rubbish[filling])
    assert code in {ErrorCode.CORRUPT, ErrorCode.NO_AUDIO}


@pytest.mark.parametrize("name", FLAVOURS)
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.99])
async def test_a_recording_cut_anywhere_is_what_is_left_of_it_or_an_error(
    decoder: Decoder, name: str, share: float
) -> None:
    whole = recording(name)
    code = await code_of(decoder, whole[: max(1, int(share * len(whole)))])
    assert code in {
        "",
        ErrorCode.CORRUPT,
        ErrorCode.NO_AUDIO,
        ErrorCode.TOO_SHORT,
        ErrorCode.UNSUPPORTED_FORMAT,
    }


@pytest.mark.parametrize(
    "name",
    [
        "webm from Chrome or Firefox",
        "fragmented mp4 from Safari or Chrome",
        "16-bit wav",
        "mp3",
        "raw aac",
    ],
)
async def test_what_came_before_a_recording_was_cut_off_is_kept(
    decoder: Decoder, name: str
) -> None:
    whole = recording(name)
    decoded = await decoder.decode(whole[: int(0.7 * len(whole))], limits=LIMITS)
    assert decoded.seconds == pytest.approx(1.4, abs=0.1)


async def test_an_mp4_file_without_its_index_is_corrupt(decoder: Decoder) -> None:
    whole = recording("m4a file")
    assert await code_of(decoder, whole[: whole.index(b"moov") - 4]) == ErrorCode.CORRUPT


@pytest.mark.parametrize(
    "name", ["fragmented mp4 from Safari or Chrome", "16-bit wav", "flac", "raw aac"]
)
async def test_a_recording_that_broke_off_says_so_where_its_container_can_tell(
    decoder: Decoder, name: str
) -> None:
    whole = recording(name)
    assert not (await decoder.decode(whole, limits=LIMITS)).damaged
    assert (await decoder.decode(whole[: int(0.7 * len(whole))], limits=LIMITS)).damaged


async def test_what_is_left_of_a_damaged_recording_is_not_called_too_short(
    decoder: Decoder,
) -> None:
    whole = recording("16-bit wav")
    assert await code_of(decoder, whole[: len(whole) // 4]) == ErrorCode.CORRUPT


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (raw_wav(np.full(96_000, np.nan, "<f4").tobytes(), bits=32, code=3), ErrorCode.CORRUPT),
        (raw_wav(np.full(96_000, np.inf, "<f4").tobytes(), bits=32, code=3), ErrorCode.CORRUPT),
        (raw_wav(np.full(96_000, 3e38, "<f4").tobytes(), bits=32, code=3), ErrorCode.CORRUPT),
        (
            raw_wav(pcm16(voice_like(2, 384_000)), sample_rate=384_000),
            ErrorCode.UNSUPPORTED_FORMAT,
        ),
        (raw_wav(bytes(96_000), sample_rate=4_000_000_000), ErrorCode.CORRUPT),
        (raw_wav(bytes(96_000), sample_rate=0), ErrorCode.CORRUPT),
        (raw_wav(bytes(96_000), sample_rate=1), ErrorCode.UNSUPPORTED_FORMAT),
        (raw_wav(bytes(255 * 4800), channels=255), ErrorCode.UNSUPPORTED_FORMAT),
        (raw_wav(bytes(96_000), channels=65_535), ErrorCode.CORRUPT),
        (raw_wav(bytes(96_000), channels=0), ErrorCode.CORRUPT),
        (raw_wav(b""), ErrorCode.NO_AUDIO),
        (raw_wav(bytes(192_000)), ErrorCode.SILENT),
        (recording("16-bit wav", 0.5), ErrorCode.TOO_SHORT),
        (recording("16-bit wav", 11), ErrorCode.TOO_LONG),
    ],
)
async def test_impossible_samples_rates_channels_and_lengths_are_told_apart(
    decoder: Decoder, data: bytes, code: ErrorCode
) -> None:
    assert await code_of(decoder, data) == code


@pytest.mark.parametrize("name", ["mp3", "raw aac"])
async def test_a_sample_rate_that_changes_in_the_middle_is_corrupt(
    decoder: Decoder, name: str
) -> None:
    data = recording(name, 2, 48_000) + recording(name, 2, 44_100)
    assert await code_of(decoder, data) == ErrorCode.CORRUPT


async def test_recordings_one_after_another_in_one_file_are_one_recording(
    decoder: Decoder,
) -> None:
    data = recording("ogg opus from Firefox", 2) + recording("ogg opus from Firefox", 2)
    decoded = await decoder.decode(data, limits=LIMITS)
    assert decoded.seconds == pytest.approx(4.0, abs=0.02)


async def test_a_declared_size_is_not_believed(decoder: Decoder) -> None:
    data = raw_wav(pcm16(voice_like(2, 48_000)), declared=2**32 - 1)
    decoded = await decoder.decode(data, limits=LIMITS)
    assert decoded.seconds == 2.0


@pytest.mark.parametrize(
    "bomb", [flac_bomb(2_000), opus_bomb(3_600)], ids=["45 min of FLAC", "1 h of Opus"]
)
async def test_hours_of_silence_in_few_bytes_end_at_the_longest_length(
    decoder: Decoder, bomb: bytes
) -> None:
    assert len(bomb) < 1_000_000
    assert await code_of(decoder, bomb) == ErrorCode.TOO_LONG


async def test_a_bomb_really_holds_what_it_says(decoder: Decoder) -> None:
    limits = DecodeLimits(max_seconds=60, min_seconds=0)
    assert await code_of(decoder, flac_bomb(20), limits) == ErrorCode.SILENT


@pytest.mark.parametrize(
    "data",
    [
        many_streams(100_000),
        endless_table(recording("m4a file")),
        b"\x1aE\xdf\xa3\x01" + b"\xff" * 7 + bytes(1000),
        struct.pack(">I4sQ", 1, b"ftyp", 2**63 - 1) + bytes(1000),
        b"\0\0\0\x10ftypisom\0\0\0\0" + struct.pack(">I4s", 2**32 - 1, b"moov") + bytes(1000),
        b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + bytes(1000),
        b"fLaC\x86\xff\xff\xff" + bytes(1000),
    ],
    ids=["streams", "samples", "ebml", "box", "moov", "id3", "flac picture"],
)
async def test_huge_declared_sizes_end_in_a_clean_error(decoder: Decoder, data: bytes) -> None:
    assert await code_of(decoder, data) in {
        ErrorCode.CORRUPT,
        ErrorCode.NO_AUDIO,
        ErrorCode.TOO_COMPLEX,
        ErrorCode.UNSUPPORTED_FORMAT,
    }


async def test_a_reference_inside_a_recording_is_not_followed(
    decoder: Decoder, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(recording("m4a file"))
    honest = await decoder.decode(recording("m4a file"), limits=LIMITS)
    for url in (f"file://{secret}", str(secret), "http://127.0.0.1:9/"):
        decoded = await decoder.decode(mp4_that_refers_to(url), limits=LIMITS)
        # The samples next to the index were decoded, at whatever place it points to.
        assert decoded.seconds == honest.seconds


async def test_too_little_memory_is_an_error_of_the_recording(decoder: Decoder) -> None:
    limits = DecodeLimits(memory_bytes=256 * 1024)
    assert await code_of(decoder, recording("16-bit wav", 10), limits) == ErrorCode.TOO_COMPLEX


async def test_bad_recordings_do_not_disturb_good_ones_decoded_at_the_same_time(
    decoder: Decoder,
) -> None:
    good = recording("webm from Chrome or Firefox")
    bad = [flac_bomb(500), MAGIC["mp4"] + bytes(5000), many_streams(5_000), b"rubbish"]
    outcomes = await asyncio.gather(
        *(decoder.decode(data, limits=LIMITS) for data in [good, *bad] * 4),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, Recording) for outcome in outcomes[::5])
    assert sum(isinstance(outcome, VoiceError) for outcome in outcomes) == 16


def _changed(data: bytes, changes: list[tuple[float, int]], end: float) -> bytes:
    changed = bytearray(data)
    for place, value in changes:
        changed[int(place * (len(changed) - 1))] ^= value
    return bytes(changed[: max(16, int(end * len(changed)))])


# Damage is most often in the beginning, where the headers are.
_PLACES = st.one_of(st.floats(0, 1), st.floats(0, 0.05))
_CHANGES = st.lists(st.tuples(_PLACES, st.integers(1, 255)), max_size=20)
_SEEDS = {name: recording(name, 1.2) for name in FLAVOURS}


@given(name=st.sampled_from(sorted(FLAVOURS)), changes=_CHANGES, end=st.floats(0.05, 1))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_no_damage_does_more_than_end_in_a_result_or_a_clean_error(
    decoder: Decoder, name: str, changes: list[tuple[float, int]], end: float
) -> None:
    try:
        decoded = await decoder.decode(_changed(_SEEDS[name], changes, end), limits=LIMITS)
    except VoiceError:
        return
    assert np.isfinite(decoded.samples).all()
    assert LIMITS.shortest <= decoded.seconds <= LIMITS.longest
