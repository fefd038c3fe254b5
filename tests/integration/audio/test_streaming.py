"""Recordings that are decoded while they come: the same samples, the same limits, no waiting."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.process_output import DecoderUnavailableError
from shared.speech.decoding.recording import DecodeLimits
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import (
    FLAVOURS,
    raw_wav,
    recording,
    voice_like,
    write,
)
from tests.integration.audio.test_processes import descriptors, wait_for_end
from tests.robustness.hostile.files import flac_bomb, hidden_opus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.speech.decoding.process_output import DecodedStream
    from shared.speech.decoding.recording import Recording

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs processes that are forked"),
    pytest.mark.asyncio(loop_scope="module"),
]

LIMITS = DecodeLimits()
WALL_SECONDS = 30.0
PIECE = 700
WEBM, WAV = "webm from Chrome or Firefox", "16-bit wav"
INDEX_COMES_LAST = frozenset({"m4a file", "apple lossless file"})


async def opened(decoder: Decoder, data: bytes, limits: DecodeLimits = LIMITS) -> DecodedStream:
    return await decoder.open_stream(data[:PIECE], limits=limits, wall_seconds=WALL_SECONDS)


async def send_all(stream: DecodedStream, data: bytes) -> None:
    for begin in range(0, len(data), PIECE):
        await stream.send(data[begin : begin + PIECE])
    stream.end()


async def heard(
    decoder: Decoder, data: bytes, limits: DecodeLimits = LIMITS
) -> tuple[NDArray[np.float32], int, Recording | None]:
    """Decode a recording while it comes; the last is None if only the whole can tell."""
    with await opened(decoder, data, limits) as stream:
        sending = asyncio.create_task(send_all(stream, data))
        pieces = [piece async for piece in stream.pieces()]
        await sending
        samples = np.concatenate([piece.samples for piece in pieces])
        return samples, pieces[0].sample_rate, await stream.whole()


def describe(found: Recording) -> tuple[object, ...]:
    return found.sample_rate, found.container, found.codec, found.channels, found.damaged


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("name", sorted(FLAVOURS.keys() - INDEX_COMES_LAST - {"mp3"}))
async def test_what_is_decoded_while_it_comes_is_what_the_whole_is(
    decoder: Decoder, name: str, channels: int
) -> None:
    data = recording(name, channels=channels)
    samples, rate, found = await heard(decoder, data)
    expected = await decoder.decode(data, limits=LIMITS)
    assert rate == expected.sample_rate
    assert found is not None
    assert np.array_equal(found.samples, expected.samples)
    assert np.array_equal(samples, expected.samples)
    assert describe(found) == describe(expected)


async def test_channels_that_cancel_out_are_mixed_as_in_the_whole(decoder: Decoder) -> None:
    left = voice_like(2.0, 48_000)
    # One piece alone would be mixed in another way than the whole.
    right = np.where(np.arange(len(left)) < 5000, left, -left)
    data = write(FLAVOURS[WAV], np.stack([left, right]), 48_000)
    _, _, found = await heard(decoder, data)
    expected = await decoder.decode(data, limits=LIMITS)
    assert found is not None
    assert np.array_equal(found.samples, expected.samples)


@pytest.mark.parametrize(
    "data",
    [
        recording(WAV)[:-1001],
        recording("float wav", channels=2, sample_rate=96_000, seconds=9.0),
        recording("mp3"),
    ],
    ids=["damaged", "larger than recorders make", "mp3"],
)
async def test_of_what_is_unusual_only_the_whole_can_tell(decoder: Decoder, data: bytes) -> None:
    assert (await heard(decoder, data))[2] is None


@pytest.mark.parametrize("name", sorted(INDEX_COMES_LAST))
async def test_what_cannot_be_read_from_its_beginning_ends_in_an_error(
    decoder: Decoder, name: str
) -> None:
    with pytest.raises(VoiceError):
        await heard(decoder, recording(name))


async def test_what_has_come_is_heard_before_the_rest_comes(decoder: Decoder) -> None:
    data = recording(WEBM)
    seconds = 0.0
    with await opened(decoder, data) as stream:
        await stream.send(data[: len(data) // 2])
        pieces = stream.pieces()
        while seconds < 0.8:
            piece = await anext(pieces)
            seconds += len(piece.samples) / piece.sample_rate


@pytest.mark.parametrize(
    ("data", "limits", "code"),
    [
        (b"\x1aE\xdf\xa3" + bytes(3000), LIMITS, ErrorCode.CORRUPT),
        (recording(WEBM, seconds=0.5), LIMITS, ErrorCode.TOO_SHORT),
        (raw_wav(bytes(192_000)), LIMITS, ErrorCode.SILENT),
        (recording(WAV), DecodeLimits(max_seconds=1.0), ErrorCode.TOO_LONG),
        (flac_bomb(400), DecodeLimits(max_seconds=2.0), ErrorCode.TOO_LONG),
        (hidden_opus(3000), LIMITS, ErrorCode.TOO_COMPLEX),
    ],
    ids=["garbage", "short", "silent", "long", "bomb", "hidden"],
)
async def test_a_bad_recording_ends_with_the_error_of_the_whole(
    decoder: Decoder, data: bytes, limits: DecodeLimits, code: ErrorCode
) -> None:
    with pytest.raises(VoiceError) as refusal:
        await heard(decoder, data, limits)

    assert refusal.value.code is code


async def test_what_is_no_recording_is_refused_before_a_process_starts(decoder: Decoder) -> None:
    with pytest.raises(VoiceError) as refusal:
        await opened(decoder, bytes(100))
    assert refusal.value.code is ErrorCode.UNSUPPORTED_FORMAT


async def test_no_more_than_the_limit_is_read_of_a_recording(decoder: Decoder) -> None:
    data = recording(WAV)
    samples, _, _ = await heard(decoder, data, DecodeLimits(max_bytes=len(data) // 2))

    assert 0.4 * len(data) / 2 < len(samples) < 0.5 * len(data) / 2


async def test_a_recording_to_which_nobody_listens_waits_instead_of_filling_memory(
    decoder: Decoder,
) -> None:
    data = recording(WAV, seconds=10.0)
    with await opened(decoder, data) as stream:
        sending = asyncio.create_task(send_all(stream, data))
        _, waiting = await asyncio.wait([sending], timeout=0.3)
        sending.cancel()

    assert waiting


async def test_a_recording_that_stops_coming_ends_after_its_time(decoder: Decoder) -> None:
    data = recording(WEBM)
    with await decoder.open_stream(data[:PIECE], limits=LIMITS, wall_seconds=0.2) as stream:
        await stream.send(data[: len(data) // 2])
        with pytest.raises(DecoderUnavailableError, match="too little processor time"):
            [piece async for piece in stream.pieces()]


async def test_closing_a_stream_ends_its_process_and_leaves_nothing() -> None:
    processes: list[int] = []
    await asyncio.to_thread(int)
    before = descriptors()
    data = recording(WEBM)
    async with Decoder(on_process=processes.append) as decoder:
        with await opened(decoder, data) as stream:
            await stream.send(data[:PIECE])
        wait_for_end(processes[0])
    assert descriptors() - before == set()


async def test_without_linux_protection_nothing_is_decoded_while_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "fork")
    async with Decoder() as decoder:
        with pytest.raises(DecoderUnavailableError, match="while they come"):
            await opened(decoder, recording(WEBM))
