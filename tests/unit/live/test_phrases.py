"""Conversion of complete phrases while the rest of the recording comes."""

from __future__ import annotations

import asyncio
import io
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest

from functions.live.stream import (
    MOST_WAITING_BYTES,
    RecordingStream,
    RecordingStreams,
    StreamDependencies,
)
from shared.characters.manifest import read_manifest
from shared.container.admission import Admission
from shared.conversion.characters import BuiltInCharacters, LoadedCharacter
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits
from shared.voices import voice as voices_of
from shared.voices.voice import Options
from tests.unit.live.stage import close
from tests.unit.signal import signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import ThreadPoolExecutor

    from shared.speech.engines.interface import ConversionOptions
    from shared.speech.signal.sound import Samples

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 3, 4, tzinfo=UTC)
RATE = 48_000
WORD_SECONDS, PAUSE_SECONDS = 0.6, 1.2


class FastEngine:
    sample_rate = RATE

    def convert(self, *_arguments: Any, **_named: Any) -> Samples:
        raise AssertionError("nothing is converted as a whole")

    def open_stream(self, *_arguments: Any) -> None:
        raise AssertionError("nobody hears it")


class EarlyEngine(FastEngine):
    """Notes how many seconds it is asked to convert ahead, and with which options."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.asked: asyncio.Queue[tuple[float, ConversionOptions]] = asyncio.Queue()
        self.error: Exception | None = None

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        asked = (len(samples) / sample_rate, options)
        self._loop.call_soon_threadsafe(self.asked.put_nowait, asked)
        if self.error is not None:
            raise self.error

    async def next(self) -> tuple[float, ConversionOptions]:
        async with asyncio.timeout(30):
            return await self.asked.get()


def opus(*parts: float) -> bytes:
    """Make a WebM of words (positive) and pauses (negative) of so many seconds."""
    sound = [
        signals.voice(signals.glide(150, 150, part)) if part > 0 else signals.silence(-part)
        for part in parts
    ]
    file = io.BytesIO()
    with av.open(file, "w", format="webm") as container:
        stream = container.add_stream("libopus", rate=RATE, layout="mono")
        samples = np.concatenate(sound)[None]
        frame = av.AudioFrame.from_ndarray(samples, format="flt", layout="mono")
        frame.sample_rate = signals.RATE
        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        for resampled in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(resampled))
        container.mux(stream.encode(None))
    return file.getvalue()


@asynccontextmanager
async def beginning(
    executor: ThreadPoolExecutor, engine: FastEngine, *, places: int = 1, running: int = 2
) -> AsyncIterator[tuple[Callable[[], RecordingStream], RecordingStreams, Admission]]:
    """Yield a function that opens a stream, all streams, and their admission."""
    character = LoadedCharacter(read_manifest(ROOT / "characters/mei/character.json"), engine)
    voice = voices_of.create(voices_of.new_voice_id(), "mei", Options(pitch_shift=3), now=NOW)
    admission = Admission(running=running, waiting=0)
    async with Decoder() as decoder:
        characters = BuiltInCharacters({"mei": character})
        opening = partial(decoder.open_stream, limits=DecodeLimits(), wall_seconds=30.0)
        tools = StreamDependencies(opening, characters, admission, executor, executor)
        streams = RecordingStreams(tools, places)
        yield lambda: streams.open(voice, None), streams, admission


def feed(stream: RecordingStream, data: bytes) -> None:
    for begin in range(0, len(data), 300):
        stream.feed(data[begin : begin + 300])


async def test_at_each_pause_all_that_has_come_is_converted_with_the_voices_options(
    executor: ThreadPoolExecutor,
) -> None:
    engine = EarlyEngine(asyncio.get_running_loop())
    parts = (WORD_SECONDS, -PAUSE_SECONDS) * 2
    async with beginning(executor, engine) as (begin, streams, _):
        stream = begin()
        for byte in range(0, len(data := opus(*parts)), 300):
            stream.feed(data[byte : byte + 300])
            await asyncio.sleep(0.005)
        (first, options), (second, _) = await engine.next(), await engine.next()
        assert streams.places_left == 0
        await close(stream)
        assert streams.places_left == 1

    assert first == pytest.approx(WORD_SECONDS + 0.9, abs=0.35)
    assert second == pytest.approx(first + WORD_SECONDS + PAUSE_SECONDS, abs=0.7)
    assert options.ahead is stream.ahead
    assert options.pitch_shift == 3


async def test_for_a_fast_character_or_without_a_place_nothing_is_decoded(
    executor: ThreadPoolExecutor,
) -> None:
    slow = EarlyEngine(asyncio.get_running_loop())
    for engine, places in ((FastEngine(), 1), (slow, 0)):
        async with beginning(executor, engine, places=places) as (begin, streams, _):
            stream = begin()
            feed(stream, opus(WORD_SECONDS, -PAUSE_SECONDS))
            stream.end()
            assert (await stream.character(), await stream.decoded()) == (None, None)
            assert streams.places_left == places
            await close(stream)

    assert slow.asked.empty()


async def test_while_others_are_converted_nothing_is_converted_ahead(
    executor: ThreadPoolExecutor,
) -> None:
    engine = EarlyEngine(asyncio.get_running_loop())
    async with beginning(executor, engine) as (begin, _, admission):
        stream = begin()
        async with admission.turn():
            feed(stream, opus(WORD_SECONDS, -PAUSE_SECONDS))
            await asyncio.sleep(0.2)
        assert engine.asked.empty()
        await close(stream)


async def test_an_error_is_logged_and_the_next_pause_is_tried(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    engine = EarlyEngine(asyncio.get_running_loop())
    engine.error = RuntimeError("a mistake of ours")
    async with beginning(executor, engine) as (begin, _, _):
        stream = begin()
        data = opus(*(WORD_SECONDS, -PAUSE_SECONDS) * 2)
        feed(stream, data[: len(data) // 2])
        await engine.next()
        # Until the first one has given its place back, a pause is let pass.
        async with asyncio.timeout(30):
            while "a mistake of ours" not in caplog.text:  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
        feed(stream, data[len(data) // 2 :])
        await engine.next()
        await close(stream)


@pytest.mark.parametrize("data", [bytes(MOST_WAITING_BYTES + 1), b"no recording" * 200])
async def test_what_cannot_be_decoded_is_left_to_the_end(
    executor: ThreadPoolExecutor, data: bytes
) -> None:
    engine = EarlyEngine(asyncio.get_running_loop())
    async with beginning(executor, engine) as (begin, streams, _):
        stream = begin()
        stream.feed(data)
        await asyncio.sleep(0.1)
        stream.feed(b"more")
        assert streams.places_left == 1
        await close(stream)

    assert engine.asked.empty()
