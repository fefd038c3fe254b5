"""How the decoder handles recordings that are broken or malicious.

That every one of many such files ends in a result or a clean error is shown in `tests/robustness`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared.speech.decoding.recording import DecodeLimits, Recording
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import raw_wav, recording, voice_like
from tests.robustness.hostile.files import flac_bomb, hidden_opus, huge_table, many_streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.decoding.decoder import Decoder

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DecodeLimits()


async def code_of(decoder: Decoder, data: bytes, limits: DecodeLimits = LIMITS) -> str:
    """The error code a recording ends with, or "" if it is accepted."""
    try:
        await decoder.decode(data, limits=limits)
    except VoiceError as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    "name",
    [
        "webm from Chrome or Firefox",
        "fragmented mp4 from Safari or Chrome",
        "16-bit wav",
        "flac",
        "mp3",
        "raw aac",
    ],
)
async def test_the_part_before_a_cut_is_kept_and_marked_as_damaged(
    decoder: Decoder, name: str
) -> None:
    whole = recording(name)
    decoded = await decoder.decode(whole[: int(0.7 * len(whole))], limits=LIMITS)
    # A block of FLAC is long.
    assert decoded.seconds == pytest.approx(1.4, abs=0.3 if name == "flac" else 0.1)
    assert decoded.damaged


async def test_the_rest_of_a_damaged_recording_is_not_refused_as_too_short(
    decoder: Decoder,
) -> None:
    whole = recording("16-bit wav")
    assert await code_of(decoder, whole[: len(whole) // 4]) == ErrorCode.CORRUPT


async def test_a_declared_size_is_not_trusted(decoder: Decoder) -> None:
    data = raw_wav((voice_like(2, 48_000) * 32767).astype("<i2").tobytes(), declared=2**32 - 1)
    assert (await decoder.decode(data, limits=LIMITS)).seconds == 2.0
    # A bomb really has its declared length.
    limits = DecodeLimits(max_seconds=60, min_seconds=0)
    assert await code_of(decoder, flac_bomb(20), limits) == ErrorCode.SILENT


async def test_exceeding_the_memory_limit_is_an_error_of_the_recording(decoder: Decoder) -> None:
    limits = DecodeLimits(memory_bytes=256 * 1024, max_bytes=500_000)
    data = recording("m4a file", 10, channels=6)
    assert await code_of(decoder, data, limits) == ErrorCode.TOO_COMPLEX


async def test_a_recording_whose_decoding_takes_long_steps_back_for_what_is_converted(
    decoder: Decoder,
) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    # As much to do as the limit of the processor time allows.
    limits = DecodeLimits(max_seconds=600, max_bytes=80_000_000)
    long = asyncio.create_task(code_of(decoder, hidden_opus(20_000), limits))
    seen = {usual}
    while not long.done() and usual + 10 not in seen:
        await asyncio.sleep(0.01)
        seen |= set(niceness_of_decoding())
    long.cancel()
    while set(niceness_of_decoding()):  # noqa: ASYNC110 - its process sets no event
        await asyncio.sleep(0.01)

    assert seen == {usual, usual + 10}
    decoding = asyncio.create_task(decoder.decode(recording("flac"), limits=LIMITS))
    while not decoding.done():
        await asyncio.sleep(0.001)
        assert set(niceness_of_decoding()) <= {usual}


def niceness_of_decoding() -> Iterator[int]:
    """How far each process steps back that was forked from this process's decoder."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            processes[stat.parent.name] = stat.read_text().rpartition(") ")[2].split()
    own = {number for number, fields in processes.items() if fields[1] == str(os.getpid())}
    return (int(f[16]) for f in processes.values() if f[1] in own and f[0] != "Z")


async def test_a_huge_table_in_a_small_file_gets_no_more_memory_than_a_container_has_for_it(
    decoder: Decoder,
) -> None:
    limits = DecodeLimits(max_bytes=8_000_000)
    assert limits.memory_allowance <= 48 << 20
    assert await code_of(decoder, huge_table(6_500_000), limits) in {
        ErrorCode.TOO_COMPLEX,
        ErrorCode.CORRUPT,
        ErrorCode.NO_AUDIO,
    }


async def test_a_little_hidden_audio_is_normal(decoder: Decoder) -> None:
    assert await code_of(decoder, hidden_opus(100)) == ErrorCode.NO_AUDIO


async def test_bad_recordings_do_not_disturb_good_ones_decoded_at_the_same_time(
    decoder: Decoder,
) -> None:
    good = recording("webm from Chrome or Firefox")
    bad = [flac_bomb(500), b"\0\0\0\x20ftypisom" + bytes(5000), many_streams(5_000), b"rubbish"]
    outcomes = await asyncio.gather(
        *(decoder.decode(data, limits=LIMITS) for data in [good, *bad] * 4),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, Recording) for outcome in outcomes[::5])
    assert sum(isinstance(outcome, VoiceError) for outcome in outcomes) == 16
