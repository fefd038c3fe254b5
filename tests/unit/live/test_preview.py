"""The preview that a visitor hears while speaking, and the phrases that are converted ahead."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pytest

from functions.live import stream
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
from shared.speech.decoding.process_output import DecodedPiece
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.voices import voice as voices_of
from shared.voices.voice import ErrorCode, Options, VoiceError
from tests.support.own_character_contract import MANY, a_ready
from tests.support.stores import CountedOwnCharacters
from tests.unit.live.stage import close

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from shared.speech.engines.interface import ConversionOptions, Engine
    from shared.speech.signal.sound import Samples

ROOT = Path(__file__).parents[3]
MEI = ROOT / "characters/mei"
WITHDRAWN = a_ready()
RATE = 24_000
NOW = datetime(2026, 3, 4, tzinfo=UTC)
TENTH = np.full(RATE // 10, 0.25, np.float32)
PAUSE = np.zeros(RATE, np.float32)


class FakeDecoded:
    """Decodes each piece of bytes to a tenth of a second, `p` to a pause, and `!` to an error."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_closed = True

    async def send(self, data: bytes) -> None:
        self._pieces.put_nowait(data)

    def end(self) -> None:
        self._pieces.put_nowait(b"")

    async def whole(self) -> str:
        return "the whole"

    async def pieces(self) -> AsyncIterator[DecodedPiece]:
        while data := await self._pieces.get():
            if data == b"!":
                raise VoiceError(ErrorCode.CORRUPT, "It is damaged.")
            if data == b"?":
                raise RuntimeError("a mistake of ours")
            yield DecodedPiece(PAUSE if data == b"p" else TENTH, RATE)


class StreamDecoder:
    def __init__(self) -> None:
        self.streams: list[FakeDecoded] = []

    async def open_stream(self, head: bytes, **_limits: Any) -> FakeDecoded:
        if head.startswith(b"%") or (head.startswith(b"#") and len(head) < 3):
            raise VoiceError(ErrorCode.UNSUPPORTED_FORMAT, "It may be anything.")
        self.streams.append(FakeDecoded())
        return self.streams[-1]


class DoublingStream:
    wanted = 1

    def push(self, samples: Samples) -> Samples:
        return samples * 2

    def finish(self) -> Samples:
        raise AssertionError("the end is not heard")


class StreamEngine:
    def __init__(self, sample_rate: int = RATE, *, hears: bool = True) -> None:
        self.sample_rate = sample_rate
        self._hears = hears

    def convert(self, *_arguments: Any) -> Samples:
        raise AssertionError("nothing is converted as a whole")

    def open_stream(self, sample_rate: int, _options: ConversionOptions) -> DoublingStream | None:
        assert sample_rate == RATE
        return DoublingStream() if self._hears else None


class EarlyEngine(StreamEngine):
    """Remembers how many seconds it is asked to convert ahead, and with which options."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
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


class Listener:
    """Keeps what is sent, and takes nothing while `is_slow`."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.is_slow = False
        self.refused = asyncio.Event()

    def send(self, message: str | bytes) -> bool:
        if self.is_slow:
            self.refused.set()
        else:
            self.messages.put_nowait(message)
        return not self.is_slow

    async def next(self) -> Any:
        async with asyncio.timeout(30):
            message = await self.messages.get()
        if isinstance(message, str):
            return json.loads(message)
        return int.from_bytes(message[:4], "little"), np.frombuffer(message[4:], "<i2")


class PreviewStage:
    def __init__(self, executor: ThreadPoolExecutor, engine: Engine, places: int = 1) -> None:
        self.decoder = StreamDecoder()
        self.visitor = Listener()
        options = Options(pitch_shift=3)
        self.voice = voices_of.create(voices_of.new_voice_id(), "mei", options, now=NOW)
        character = LoadedCharacter(read_manifest(MEI / "character.json"), engine)
        self.characters = LendingCharacters({"mei": character, WITHDRAWN.character_id: character})
        self.own_characters = CountedOwnCharacters()
        self.streams = RecordingStreams(self.tools(self.decoder.open_stream, executor), places)

    def tools(self, open_stream: Any, executor: ThreadPoolExecutor) -> StreamDependencies:
        self.admission = Admission(running=2, waiting=0)
        return StreamDependencies(
            open_stream,
            self.characters,
            self.admission,
            executor,
            executor,
            self.own_characters,
        )

    def open(self) -> RecordingStream:
        return self.streams.open(self.voice, self.visitor.send)


class LendingCharacters(BuiltInCharacters):
    lent = 0
    loans = 0

    @asynccontextmanager
    async def lend(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        self.lent += 1
        self.loans += 1
        try:
            async with super().lend(character_id) as character:
                yield character
        finally:
            self.loans -= 1


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def stage(executor: ThreadPoolExecutor) -> PreviewStage:
    return PreviewStage(executor, StreamEngine())


async def test_a_visitor_hears_samples_with_the_number_of_the_first(stage: PreviewStage) -> None:
    hearing = stage.open()
    for _ in range(3):
        hearing.feed(b"abc")
    frames = [await stage.visitor.next() for _ in range(3)]
    await close(hearing)

    assert [first for first, _ in frames] == [0, 2400, 4800]
    assert all((samples == 16384).all() for _, samples in frames)
    assert stage.decoder.streams[0].is_closed


async def test_nothing_is_heard_of_a_withdrawn_character(stage: PreviewStage) -> None:
    await stage.own_characters.create(WITHDRAWN, limits=MANY, by="somebody")
    stage.voice = replace(stage.voice, character=WITHDRAWN.character_id)
    hearing = stage.open()
    hearing.feed(b"a")

    assert await stage.visitor.next() == {"type": "hearing_ended", "reason": "unavailable"}
    assert await hearing.character() is None
    assert stage.characters.lent == 0
    await close(hearing)


async def test_what_a_slow_visitor_misses_leaves_a_gap_in_the_numbers(stage: PreviewStage) -> None:
    hearing = stage.open()
    hearing.feed(b"a")
    await stage.visitor.next()
    stage.visitor.is_slow = True
    hearing.feed(b"b")
    await stage.visitor.refused.wait()
    stage.visitor.is_slow = False
    hearing.feed(b"c")
    first, _ = await stage.visitor.next()
    await close(hearing)

    assert first == 4800


async def test_a_voice_at_another_rate_is_heard_at_24_khz(executor: ThreadPoolExecutor) -> None:
    stage = PreviewStage(executor, StreamEngine(48_000))
    hearing = stage.open()
    for _ in range(4):
        hearing.feed(b"a")
    first, samples = await stage.visitor.next()
    following, _ = await stage.visitor.next()
    await close(hearing)

    assert first == 0
    assert 0.3 * 2400 < len(samples) <= 1200
    assert following == len(samples)


async def test_without_a_place_the_visitor_is_told_and_a_place_becomes_free(
    stage: PreviewStage,
) -> None:
    hearing = stage.open()
    await hearing.character()
    refused = stage.open()
    assert await stage.visitor.next() == {"type": "hearing_ended", "reason": "busy"}
    assert (await refused.character(), await refused.decoded()) == (None, None)
    await close(hearing)
    assert stage.streams.places_left == 1
    assert stage.characters.loans == 0


async def test_one_decode_and_one_loan_serve_what_is_heard_and_the_conversion(
    stage: PreviewStage,
) -> None:
    hearing = stage.open()
    hearing.feed(b"a")
    await stage.visitor.next()
    hearing.feed(b"b")
    hearing.end()
    character, recording = await hearing.character(), await hearing.decoded()

    assert character is not None
    assert cast("str", recording) == "the whole"
    assert (len(stage.decoder.streams), stage.characters.lent) == (1, 1)
    assert stage.streams.places_left == 1
    assert stage.characters.loans == 1
    await close(hearing)
    assert stage.characters.loans == 0
    assert stage.visitor.messages.empty(), "something is heard after the end"


async def test_a_decode_that_does_not_end_is_not_waited_for(
    stage: PreviewStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FINISHING_SECONDS", 0.1)
    hearing = stage.open()
    hearing.feed(b"a")
    await stage.visitor.next()

    async with asyncio.timeout(20):
        assert await hearing.decoded() is None

    await close(hearing)


@pytest.mark.parametrize("piece", [b"!", b"?"])
async def test_an_error_ends_what_is_heard_and_nothing_else(
    stage: PreviewStage, piece: bytes
) -> None:
    hearing = stage.open()
    hearing.feed(piece)
    assert await stage.visitor.next() == {"type": "hearing_ended", "reason": "unavailable"}
    hearing.feed(b"a")
    hearing.end()
    assert await hearing.decoded() is None
    assert await hearing.character() is not None
    await close(hearing)
    assert stage.visitor.messages.empty()
    assert stage.streams.places_left == 1


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([b"a"], "unsupported"),
        ([bytes(MOST_WAITING_BYTES + 1)], "busy"),
        ([b"%" + bytes(511)] * 2, "unavailable"),
    ],
    ids=["needs the whole recording", "too much waits", "no known format"],
)
async def test_what_cannot_be_heard_is_told(
    executor: ThreadPoolExecutor, pieces: list[bytes], reason: str
) -> None:
    stage = PreviewStage(executor, StreamEngine(hears=reason != "unsupported"))
    hearing = stage.open()
    for piece in pieces:
        hearing.feed(piece)
    assert await stage.visitor.next() == {"type": "hearing_ended", "reason": reason}
    await close(hearing)


async def test_when_converting_takes_too_long_hearing_ends(
    stage: PreviewStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_WAITING_SECONDS", 0.0)
    hearing = stage.open()
    hearing.feed(b"a")
    assert await stage.visitor.next() == {"type": "hearing_ended", "reason": "busy"}
    await close(hearing)


async def test_the_built_in_character_is_heard_while_a_real_recording_comes(
    executor: ThreadPoolExecutor,
) -> None:
    data = (ROOT / "infra/local/samples/hello.webm").read_bytes()
    engine = build_engine(load_character(MEI, ENGINES), SessionSettings())
    processes: list[int] = []
    async with Decoder(on_process=processes.append) as decoder:
        stage = PreviewStage(executor, engine)
        limits = DecodeLimits(max_seconds=30.0)
        opening = partial(decoder.open_stream, limits=limits, wall_seconds=30.0)
        stage.streams = RecordingStreams(stage.tools(opening, executor), 1)
        hearing = stage.open()
        for begin in range(0, len(data), 300):
            hearing.feed(data[begin : begin + 300])
        heard = 0
        loudest = 0
        while heard < RATE // 2:
            first, samples = await stage.visitor.next()
            assert first == heard
            heard += len(samples)
            loudest = max(loudest, int(np.abs(samples.astype(int)).max()))
        hearing.end()
        decoded = await hearing.decoded()
        await close(hearing)
        assert len(processes) == 1
        whole = await decoder.decode(data, limits=limits)

    assert loudest > 3000
    assert decoded is None or np.array_equal(decoded.samples, whole.samples)
    assert (decoded is None) == whole.damaged


async def test_a_recording_whose_first_bytes_come_one_by_one_is_heard(stage: PreviewStage) -> None:
    hearing = stage.open()
    for piece in (b"#", b"a", b"b"):
        hearing.feed(piece)
    first, _ = await stage.visitor.next()
    await close(hearing)

    assert first == 0
    assert len(stage.decoder.streams) == 1


async def test_at_each_pause_all_that_has_come_is_converted_with_the_voices_options(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    engine = EarlyEngine()
    stage = PreviewStage(executor, engine)
    stream = stage.streams.open(stage.voice, None)
    heard = []
    for _ in range(2):
        stream.feed(b"a")
        stream.feed(b"p")
        heard.append(await engine.next())
        # Until one has given its place back, a pause is let pass.
        async with asyncio.timeout(30):
            while caplog.text.count("converted a phrase ahead") < len(heard):  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
    assert stage.streams.places_left == 0
    await close(stream)

    assert [seconds for seconds, _ in heard] == pytest.approx([1.1, 2.2])
    assert all(options.ahead is stream.ahead for _, options in heard)
    assert heard[0][1].pitch_shift == 3
    assert stage.streams.places_left == 1


@pytest.mark.parametrize("places", [0, 1])
async def test_for_a_fast_character_or_without_a_place_nothing_is_decoded(
    executor: ThreadPoolExecutor, places: int
) -> None:
    engine = StreamEngine() if places else EarlyEngine()
    stage = PreviewStage(executor, engine, places)
    stream = stage.streams.open(stage.voice, None)
    stream.feed(b"a")
    stream.end()

    assert (await stream.character(), await stream.decoded()) == (None, None)
    assert stage.streams.places_left == places
    assert not stage.decoder.streams
    await close(stream)


async def test_while_others_are_converted_nothing_is_converted_ahead(
    executor: ThreadPoolExecutor,
) -> None:
    engine = EarlyEngine()
    stage = PreviewStage(executor, engine)
    stream = stage.streams.open(stage.voice, None)
    async with stage.admission.turn():
        stream.feed(b"a")
        stream.feed(b"p")
        await asyncio.sleep(0.1)
    await close(stream)

    assert engine.asked.empty()


async def test_an_error_is_logged_and_the_next_pause_is_tried(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    engine = EarlyEngine()
    engine.error = RuntimeError("a mistake of ours")
    stage = PreviewStage(executor, engine)
    stream = stage.streams.open(stage.voice, None)
    for _ in range(2):
        stream.feed(b"a")
        stream.feed(b"p")
        await engine.next()
        # Until one has given its place back, a pause is let pass.
        async with asyncio.timeout(30):
            while "a mistake of ours" not in caplog.text:  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
    await close(stream)
