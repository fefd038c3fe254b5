"""The collaborators of a conversion, in memory: they wait, fail and count as a test says."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from infra.local.cloud.memory import MemoryVoices
from shared.container.admission import Admission, stay
from shared.conversion.characters import LoadedCharacter
from shared.conversion.stages import Outcome, UnstoredResult
from shared.conversion.stopwatch import Lap, Stages
from shared.conversion.worker import Worker
from shared.ports import NO_TRACES
from shared.speech.decoding.recording import Recording
from shared.speech.engines.interface import Mark, MarkedPiece
from shared.speech.results.audio_files import EncodedResult
from shared.speech.results.statement import Marking
from shared.voices import voice as voices_of
from shared.voices.media import Container
from shared.voices.messages import PushMessage, parse_conversion_message
from shared.voices.objects import StorageUnavailableError
from shared.voices.store import StoreUnavailableError, change
from shared.voices.voice import Status
from tests.support.characters import a_manifest
from tests.support.clock import loop_now, loop_seconds
from tests.support.messages import conversion_message
from tests.support.stores import CountedOwnCharacters
from tests.support.voices import a_queued, a_result, an_upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from datetime import datetime

    from shared.container.admission import PassOn
    from shared.conversion.characters import CharacterLender
    from shared.conversion.stages import Conversion, EarlyResult
    from shared.ports import Traces
    from shared.speech.decoding.recording import DecodeLimits
    from shared.speech.engines.interface import ConversionOptions, Engine
    from shared.speech.engines.text_interface import SpeechOptions
    from shared.speech.signal.sound import Samples, StageClock
    from shared.voices.store import Snapshot
    from shared.voices.voice import ErrorCode, Result, Voice

MEI = LoadedCharacter(a_manifest("mei"), cast("Engine", None))
DEADLINE = 60.0
PATIENCE = 15.0
SOUND = b"RIFF" + b"sound" * 1000


def open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


def a_recording(**changes: Any) -> Recording:
    """Return hardly more than half a second at 16 kHz."""
    fields: dict[str, Any] = {
        "samples": np.full(8001, 0.25, np.float32),
        "sample_rate": 16_000,
        "container": Container.WEBM,
        "codec": "opus",
        "channels": 1,
        "damaged": False,
        "cpu_seconds": 0.01,
        "confined": True,
    }
    return Recording(**(fields | changes))


class FakeDecoder:
    """Decodes any input to the same recording."""

    def __init__(self, *, is_ready: bool = True) -> None:
        self.is_ready = is_ready
        self.recording = a_recording()
        self.error: Exception | None = None
        self.decoded: list[bytes] = []
        self.limits: DecodeLimits | None = None

    async def decode(self, data: bytes, *, limits: DecodeLimits) -> Recording:
        self.decoded.append(data)
        self.limits = limits
        if self.error is not None:
            raise self.error
        return self.recording


class FakeEngine:
    """Negates every sample; records the options, and the length and rate of each recording."""

    sample_rate = 16_000

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[ConversionOptions] = []
        self.converted: list[tuple[int, int]] = []

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        self.asked.append(options)
        if self.error is not None:
            raise self.error
        self.converted.append((len(samples), sample_rate))
        with stopwatch.stage("network") if stopwatch else nullcontext():
            return -samples

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        raise NotImplementedError


class FakeSpeaker:
    """Speaks any text in pieces of a second or another length; records texts and options."""

    def __init__(
        self,
        pieces: int = 2,
        error: Exception | None = None,
        *,
        sample_rate: int = 100,
        samples: int = 100,
    ) -> None:
        self.pieces = pieces
        self.error = error
        self.sample_rate = sample_rate
        self.samples = samples
        self.asked: list[tuple[str, SpeechOptions]] = []
        self.estimated = 0.0
        self.spoken = 0

    def estimate(self, text: str, options: SpeechOptions) -> float:
        del text, options
        return self.estimated

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        self.asked.append((text, options))
        if self.error is not None:
            raise self.error
        return self.speak_pieces()

    def speak_pieces(self) -> Iterator[Samples]:
        for _ in range(self.pieces):
            self.spoken += 1
            yield np.full(self.samples, 0.25, np.float32)


class MarkingSpeaker(FakeSpeaker):
    """Marks a word and a phone in the middle of every piece."""

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        middle = self.samples / self.sample_rate / 2
        marks = (Mark("word", "はい", middle), Mark("phone", "h", middle))
        return (MarkedPiece(piece, marks) for piece in self.speak(text, options))


class FakeCharacters:
    """Lends any character, which may have to be loaded first."""

    def __init__(self, error: Exception | None = None) -> None:
        self.loading_seconds = 0.0
        self.error = error
        self.asked: list[str] = []
        self.lent = 0

    @asynccontextmanager
    async def lend(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        self.asked.append(character_id)
        if self.loading_seconds:
            await asyncio.sleep(self.loading_seconds)
        if self.error is not None:
            raise self.error
        self.lent += 1
        try:
            yield MEI
        finally:
            self.lent -= 1


class LoopVoices(MemoryVoices):
    """A store in the loop's time, which may be out of reach for some writes or altogether."""

    def __init__(self) -> None:
        super().__init__(now=loop_now)
        self.is_out_of_reach = False
        self.failing_writes = 0

    async def read(self, voice_id: str) -> Snapshot:
        if self.is_out_of_reach:
            raise StoreUnavailableError("down")
        return await super().read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.is_out_of_reach or self.failing_writes:
            self.failing_writes -= 1
            raise StoreUnavailableError("down")
        return await super().replace(snapshot, voice)


class FakeThreads:
    """Tells how long a thread has been running."""

    seconds = 0.0

    def longest_seconds(self) -> float:
        return self.seconds


class FakeConversion:
    """Makes the same sound of every voice and keeps the names of the results in storage.

    The gates `may_make`, `may_store` and `may_discard` are open; one that a test clears stops the
    conversion in that step. A result is in storage before `may_store` lets its writer know.
    """

    def __init__(self) -> None:
        self.threads = FakeThreads()
        self.results: set[str] = set()
        self.attempts: list[int] = []
        self.characters: list[str] = []
        self.made: list[tuple[str, bytes, str]] = []
        self.early: EarlyResult | None = None
        self.stage = "converting"
        self.running = 0
        self.most_running = 0
        self.begun = asyncio.Semaphore(0)
        self.passes_on = False
        self.may_make = open_gate()
        self.may_store = open_gate()
        self.may_discard = open_gate()
        self.error: Exception | None = None
        self.store_error: Exception | None = None
        self.discard_error: Exception | None = None
        self.tidying_seconds = 0.0
        self.tidying_fails = 0
        self.searches = 0
        self.recordings_discarded = 0

    def result(self, voice_id: str, attempt: int = 1) -> Result:
        return a_result(voice_id, attempt, sha256=hashlib.sha256(SOUND).hexdigest())

    async def run(
        self,
        voice: Voice,
        character: LoadedCharacter,
        enter_stage: Callable[[str], None],
        pass_on: PassOn = stay,
    ) -> Outcome:
        stages = Stages(enter_stage)
        made = await self.make(voice, character, b"", "", stages, pass_on=pass_on)
        return await self.store(voice, made, stages)

    async def make(
        self,
        voice: Voice,
        character: LoadedCharacter,
        data: bytes,
        content_type: str,
        stages: Stages,
        *,
        early: EarlyResult | None = None,
        pass_on: PassOn = stay,
    ) -> UnstoredResult:
        self.attempts.append(voice.attempt)
        self.early = early
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            stages.enter(self.stage)
            self.begun.release()
            await self.may_make.wait()
            if self.passes_on:
                await pass_on()
            if self.error is not None:
                raise self.error
        finally:
            self.running -= 1
        self.characters.append(character.manifest.id)
        self.made.append((voice.voice_id, data, content_type))
        encoded = EncodedResult(SOUND, "audio/wav", ".wav", 2.5)
        return UnstoredResult(encoded, Marking("mei", "Mei", "credit"), 2.5)

    async def store(self, voice: Voice, made: UnstoredResult, stages: Stages) -> Outcome:
        stages.enter("storing")
        result = self.result(voice.voice_id, voice.attempt)
        self.results.add(result.object)
        await self.may_store.wait()
        if self.store_error is not None:
            raise self.store_error
        return Outcome(result, made.seconds, {"decode": 1.0}, [Lap("decode", 1.0, 0.001)])

    async def discard_recording(self, voice: Voice) -> None:
        assert voice.status.is_final
        await self.may_discard.wait()
        if self.discard_error is not None:
            raise self.discard_error
        self.recordings_discarded += 1

    async def discard(self, voice: Voice) -> None:
        self._forget(f"{voice.voice_id}/{voice.attempt}.")

    async def discard_all(self, voice_id: str) -> None:
        self._forget(f"{voice_id}/")

    async def discard_others(self, voice: Voice) -> None:
        self.searches += 1
        await asyncio.sleep(self.tidying_seconds)
        if self.tidying_fails:
            self.tidying_fails -= 1
            raise StorageUnavailableError("down")
        self._forget(f"{voice.voice_id}/", voice.result.object if voice.result else "")

    def _forget(self, prefix: str, keep: str = "") -> None:
        self.results = {
            name for name in self.results if name == keep or not name.startswith(prefix)
        }


class WorkerStage:
    def __init__(
        self,
        running: int = 2,
        waiting: int = 2,
        traces: Traces = NO_TRACES,
        characters: CharacterLender | None = None,
        patience: float | None = PATIENCE,
    ) -> None:
        self.patience = patience
        self.traces = traces
        self.voices = LoopVoices()
        self.characters = FakeCharacters()
        self.own_characters = CountedOwnCharacters()
        self.lender = characters or self.characters
        self.conversion = FakeConversion()
        self.running, self.waiting = running, waiting
        self.worker = self.another_worker()

    def another_worker(self, conversion: FakeConversion | None = None) -> Worker:
        self.admission = Admission(
            running=self.running,
            waiting=self.waiting,
            most_of_one=max(1, self.running - 1),
            patience=self.patience,
            now=loop_seconds,
        )
        return Worker(
            self.voices,
            self.lender,
            cast("Conversion", conversion or self.conversion),
            self.admission,
            DEADLINE,
            own_characters=self.own_characters,
            traces=self.traces,
        )

    async def add(self, voice: Voice | None = None, client: str | None = None) -> PushMessage:
        voice = voice or a_queued()
        await self.voices.create(voice)
        message = conversion_message(voice.voice_id, uploaded_at="2026-03-04T05:06:07.123456Z")
        request = parse_conversion_message(message)
        return PushMessage(replace(request, client=client).encode(), message.attributes)

    async def handle_new(self) -> PushMessage:
        message = await self.add()
        await self.worker.handle(message)
        return message

    async def begin(self, message: PushMessage) -> asyncio.Task[None]:
        """Handle a message, up to the beginning of its conversion."""
        work = asyncio.create_task(self.worker.handle(message))
        await self.conversion.begun.acquire()
        return work

    async def begin_stopped(self, gate: str = "may_make") -> tuple[PushMessage, asyncio.Task[None]]:
        message = await self.add()
        getattr(self.conversion, gate).clear()
        return message, await self.begin(message)

    async def voice(self, message: PushMessage) -> Voice:
        return (await self.voices.read(voice_id_of(message))).voice

    async def status(self, message: PushMessage) -> Status:
        return (await self.voice(message)).status

    async def error_code(self, message: PushMessage) -> ErrorCode:
        error = (await self.voice(message)).error
        assert error is not None
        return error.code

    async def require_free(self, message: PushMessage) -> None:
        """Require that a voice was handed back, so that the next attempt need not wait."""
        voice = await self.voice(message)
        assert voice.status is Status.CONVERTING
        assert not voice.lease_remaining(loop_now())

    async def take_over(self, message: PushMessage) -> None:
        """Lease a voice for another worker, whatever lease there is."""

        def steal(voice: Voice, now: datetime) -> Voice:
            free = replace(voice, lease_expires_at=None)
            return voices_of.lease(free, now, an_upload(voice.voice_id))

        await change(self.voices, voice_id_of(message), steal)


def voice_id_of(message: PushMessage) -> str:
    return parse_conversion_message(message).voice_id
