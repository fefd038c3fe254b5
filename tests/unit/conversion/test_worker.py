from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
import time_machine
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from infra.local.cloud.memory import MemoryVoices
from shared.container.admission import Admission
from shared.conversion.characters import LoadedCharacter, unknown_character
from shared.conversion.leases import take_lease
from shared.conversion.stopwatch import Lap
from shared.conversion.worker import CharacterLateError, ConversionJob, Worker
from shared.ports import NO_TRACES
from shared.runtime.push import AbandonedError, OverloadedError
from shared.runtime.traces import SpanTraces
from shared.speech.decoding.process_output import ResourceLimitError
from shared.voices import voice as voices_of
from shared.voices.messages import MalformedMessageError, PushMessage, parse_conversion_message
from shared.voices.objects import ObjectMissingError, StorageUnavailableError
from shared.voices.store import Snapshot, StoreUnavailableError, change
from shared.voices.voice import (
    LEASE,
    MOST_ATTEMPTS,
    ErrorCode,
    LeaseHeldError,
    LeaseLostError,
    Status,
    Voice,
    VoiceError,
)
from tests.support.characters import a_manifest
from tests.support.logs import LogBook, log_book, logged_as
from tests.support.messages import conversion_message
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import (
    ERROR,
    EVERY_STATE,
    a_queued,
    a_result,
    a_waiting,
    an_upload,
    is_sentence,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from shared.container.admission import PassOn
    from shared.conversion.stages import Conversion
    from shared.ports import Traces
    from shared.speech.engines.interface import Engine
    from shared.voices.voice import Result

DEADLINE = 60.0
MEI = LoadedCharacter(a_manifest("mei"), cast("Engine", None))


class FakeOutcome:
    def __init__(self, result: Result) -> None:
        self.result = result
        self.seconds = 2.5
        self.timings = {"decode": 1.0}
        self.laps = [Lap("decode", 1.0, 0.001)]


class FakeThreads:
    """Says how long a thread has been running."""

    seconds = 0.0

    def longest_seconds(self) -> float:
        return self.seconds


class FakeConversion:
    """Stores a result's name; waits, fails and reports as the test says."""

    def __init__(self) -> None:
        self.results: set[str] = set()
        self.threads = FakeThreads()
        self.runs: list[int] = []
        self.stage = "converting"
        self.running = 0
        self.most_running = 0
        self.outcome: Exception | None = None
        self.result_is_broken = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.after_storing = asyncio.Event()
        self.after_storing.set()
        self.begun = asyncio.Semaphore(0)
        self.passes_on = False
        self.tidying_seconds = 0.0
        self.tidying_fails = 0
        self.searches = 0
        self.recordings_discarded = 0

    async def run(
        self,
        voice: Voice,
        character: object,
        enter_stage: Callable[[str], None],
        pass_on: PassOn,
    ) -> FakeOutcome:
        assert character is MEI
        self.runs.append(voice.attempt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            enter_stage(self.stage)
            self.begun.release()
            await self.goes_on.wait()
            if self.passes_on:
                await pass_on()
            if self.outcome is not None:
                raise self.outcome
            result = a_result(voice.voice_id, voice.attempt)
            self.results.add(result.object)
            await self.after_storing.wait()
            if self.result_is_broken:
                raise ValueError("a mistake")
            return FakeOutcome(result)
        finally:
            self.running -= 1

    async def discard_recording(self, voice: Voice) -> None:
        assert voice.status.is_final
        self.recordings_discarded += 1

    async def discard(self, voice: Voice) -> None:
        self.results = {
            name
            for name in self.results
            if not name.startswith(f"{voice.voice_id}/{voice.attempt}.")
        }

    async def discard_all(self, voice_id: str) -> None:
        self.results = {name for name in self.results if not name.startswith(f"{voice_id}/")}

    async def discard_others(self, voice: Voice) -> None:
        self.searches += 1
        await asyncio.sleep(self.tidying_seconds)
        if self.tidying_fails:
            self.tidying_fails -= 1
            raise StorageUnavailableError("down")
        self.results &= {voice.result.object} if voice.result else set()


class FakeCharacters:
    """Lends one character, which may have to be loaded first."""

    def __init__(self) -> None:
        self.loading_seconds = 0.0
        self.outcome: Exception | None = None
        self.lent = 0

    @asynccontextmanager
    async def lend(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        assert character_id == "mei"
        await asyncio.sleep(self.loading_seconds)
        if self.outcome is not None:
            raise self.outcome
        self.lent += 1
        try:
            yield MEI
        finally:
            self.lent -= 1


class Store(MemoryVoices):
    """A store in the loop's time, which a test can make unreachable."""

    def __init__(self) -> None:
        super().__init__(now=self.now)
        self.unavailable = 0

    def now(self) -> datetime:
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        return begin + timedelta(seconds=asyncio.get_running_loop().time())

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailableError("down")
        return await super().replace(snapshot, voice)


class Stage:
    """A worker and its collaborators."""

    def __init__(self, running: int = 2, waiting: int = 2, traces: Traces = NO_TRACES) -> None:
        self.traces = traces
        self.voices = Store()
        self.characters = FakeCharacters()
        self.conversion = FakeConversion()
        self.running, self.waiting = running, waiting
        self.worker = self.another_worker()

    def another_worker(self, conversion: FakeConversion | None = None) -> Worker:
        self.admission = Admission(running=self.running, waiting=self.waiting)
        return Worker(
            self.voices,
            self.characters,
            cast("Conversion", conversion or self.conversion),
            self.admission,
            DEADLINE,
            traces=self.traces,
        )

    async def add(self, voice: Voice | None = None) -> PushMessage:
        voice = voice or a_queued()
        await self.voices.create(voice)
        return conversion_message(voice.voice_id, uploaded_at="2026-03-04T05:06:07.123456Z")

    async def voice(self, message: PushMessage) -> Voice:
        return (await self.voices.read(_voice_id(message))).voice

    async def take_over(self, message: PushMessage) -> None:
        def steal(voice: Voice, now: datetime) -> Voice:
            free = replace(voice, lease_expires_at=None)
            return voices_of.lease(free, now, an_upload(voice.voice_id))

        await change(self.voices, _voice_id(message), steal)


def _voice_id(message: PushMessage) -> str:
    return parse_conversion_message(message).voice_id


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept


@in_virtual_time
async def test_a_message_ends_with_its_voice_done(book: LogBook) -> None:
    stage = Stage()
    message = await stage.add()

    await stage.worker.handle(message)

    done = await stage.voice(message)
    assert (done.status, done.attempt) == (Status.DONE, 1)
    assert done.result == a_result(done.voice_id)
    assert done.input is not None
    assert (done.input.seconds, done.timings) == (2.5, {"decode": 1.0})
    assert stage.worker.has_converted
    (started,), (ended,) = book.of("conversion_started"), book.of("conversion_done")
    assert (started["voice"], started["attempt"], started["cold"]) == (
        logged_as(done.voice_id),
        1,
        True,
    )
    assert (ended["seconds"], ended["stages"], ended["character"]) == (2.5, {"decode": 1.0}, "mei")
    # Nothing went wrong on the way, and a first attempt leaves nothing to search for.
    assert [entry for entry in book.entries if entry["severity"] == "ERROR"] == []
    assert stage.conversion.searches == 0


def test_a_new_worker_has_neither_converted_nor_hung() -> None:
    worker = Stage().worker

    assert (worker.has_converted, worker.is_stuck) == (False, False)


@in_virtual_time
async def test_the_log_tells_for_how_many_milliseconds_a_visitor_has_waited(book: LogBook) -> None:
    stage = Stage()
    message = await stage.add()

    with time_machine.travel(datetime(2026, 3, 4, 5, 6, 9, 500_000, UTC), tick=False):
        await stage.worker.handle(message)

    assert [entry["wait_ms"] for entry in book.of("conversion_done")] == [2376.5]


@in_virtual_time
async def test_only_the_first_conversion_of_a_process_is_cold(book: LogBook) -> None:
    stage = Stage()
    for _ in range(3):
        await stage.worker.handle(await stage.add())

    assert [entry["cold"] for entry in book.of("conversion_started")] == [True, False, False]


@pytest.mark.parametrize("moment", [None, "", "yesterday", "2026-03-04T05:06:07"])
def test_a_message_without_the_uploads_time_is_converted_all_the_same(
    moment: str | None, book: LogBook
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        attributes = {} if moment is None else {"uploaded_at": moment}
        await stage.worker.handle(replace(message, attributes=attributes))
        assert (await stage.voice(message)).status is Status.DONE

    run()
    assert "wait_ms" not in book.of("conversion_done")[0]


@in_virtual_time
async def test_a_permanent_error_fails_the_voice_and_the_message_is_over(book: LogBook) -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.outcome = ERROR

    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert (failed.status, failed.error and failed.error.code) == (Status.FAILED, ErrorCode.SILENT)
    (entry,) = book.of("conversion_failed")
    assert (entry["code"], entry["attempt"], entry["character"]) == ("silent", 1, "mei")
    assert book.of("conversion_done") == []


async def test_the_trace_of_an_attempt_says_which_one_it_was_and_why_it_failed() -> None:
    spans = InMemorySpanExporter()
    traces = SpanTraces(SimpleSpanProcessor(spans), Resource({}), "a key for tests")
    stage = Stage(traces=traces)
    message = await stage.add()
    stage.conversion.outcome = ERROR

    await stage.worker.handle(message)

    (attempt,) = [span for span in spans.get_finished_spans() if span.name == "attempt"]
    assert attempt.attributes == {"attempt": 1, "character": "mei"}
    assert attempt.status.description == "silent"


@pytest.mark.parametrize(
    "outcome",
    [
        StorageUnavailableError("down"),
        TimeoutError("a server was slow"),
        ConnectionResetError("a server broke off"),
        MemoryError("no room"),
        ObjectMissingError("it was deleted"),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_a_passing_error_hands_the_voice_back_and_the_message_comes_again(
    outcome: Exception,
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.conversion.outcome = outcome

        with pytest.raises(type(outcome)):
            await stage.worker.handle(message)
        handed_back = await stage.voice(message)
        assert handed_back.status is Status.CONVERTING
        assert handed_back.lease_remaining(stage.voices.now()) == timedelta(0)

        stage.conversion.outcome = None
        before = asyncio.get_running_loop().time()
        await stage.worker.handle(message)
        done = await stage.voice(message)
        assert (done.status, done.attempt) == (Status.DONE, 2)
        assert asyncio.get_running_loop().time() == before
        assert not stage.worker.is_stuck

    run()


@pytest.mark.parametrize(
    "outcome",
    [
        ValueError("a mistake"),
        KeyError("a mistake"),
        AssertionError("a mistake"),
        RuntimeError("a mistake"),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_a_mistake_of_the_program_fails_the_voice_at_once_and_is_logged_with_its_trace(
    outcome: Exception, book: LogBook
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.conversion.outcome = outcome

        await stage.worker.handle(message)

        failed = await stage.voice(message)
        assert failed.error is not None
        assert (failed.error.code, failed.attempt) == (ErrorCode.INTERNAL, 1)
        assert is_sentence(failed.error.message)
        assert "a mistake" not in failed.error.message
        assert (stage.conversion.runs, stage.conversion.recordings_discarded) == ([1], 1)
        assert not stage.worker.is_stuck

    run()
    (entry,) = book.of("unexpected_error")
    assert entry["severity"] == "ERROR"
    assert "test_worker.py" in entry["stack_trace"]
    assert [entry["code"] for entry in book.of("conversion_failed")] == ["internal"]


@in_virtual_time
async def test_a_mistake_after_the_result_was_stored_leaves_no_result() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.result_is_broken = True

    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.INTERNAL
    assert stage.conversion.results == set()


def test_a_mistake_that_cannot_be_stored_is_tried_again_and_costs_no_attempt(
    book: LogBook,
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.conversion.goes_on.clear()
        stage.conversion.outcome = ValueError("a mistake")
        working = asyncio.create_task(stage.worker.handle(message))
        await stage.conversion.begun.acquire()
        stage.voices.unavailable = 1
        stage.conversion.goes_on.set()
        with pytest.raises(StoreUnavailableError):
            await working
        handed_back = await stage.voice(message)
        assert (handed_back.status, handed_back.counted_attempts) == (Status.CONVERTING, 0)

        await stage.worker.handle(message)
        assert (await stage.voice(message)).status is Status.FAILED

    run()
    assert len(book.of("unexpected_error")) == 2


@in_virtual_time
async def test_a_recording_that_hits_a_limit_of_the_machine_has_two_attempts() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.outcome = ResourceLimitError("killed")

    with pytest.raises(ResourceLimitError):
        await stage.worker.handle(message)
    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert (failed.error.code, failed.attempt) == (ErrorCode.TOO_COMPLEX, 2)
    assert is_sentence(failed.error.message)


def test_a_voice_that_fails_again_and_again_is_given_up_and_leaves_nothing(
    book: LogBook,
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add(replace(a_queued(), attempt=MOST_ATTEMPTS - 1))
        stage.conversion.results = {f"{_voice_id(message)}/2.wav"}
        stage.conversion.outcome = MemoryError("no room")
        with pytest.raises(MemoryError):
            await stage.worker.handle(message)
        runs = len(stage.conversion.runs)

        await stage.worker.handle(message)

        failed = await stage.voice(message)
        assert failed.error is not None
        assert failed.error.code is ErrorCode.ATTEMPTS_EXHAUSTED
        assert (len(stage.conversion.runs), stage.conversion.results) == (runs, set())

    run()
    (entry,) = book.of("conversion_failed")
    assert entry["code"] == "attempts_exhausted"
    assert f"{MOST_ATTEMPTS} attempts" in entry["message"]


@in_virtual_time
async def test_however_often_a_service_does_not_answer_the_voice_is_not_given_up() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.outcome = StorageUnavailableError("down")
    for _ in range(3 * MOST_ATTEMPTS):
        with pytest.raises(StorageUnavailableError):
            await stage.worker.handle(message)

    stage.conversion.outcome = None
    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_however_often_an_instance_is_full_or_stops_the_voice_is_not_given_up() -> None:
    stage = Stage(running=1, waiting=0)
    message, other = await stage.add(), await stage.add()
    stage.conversion.goes_on.clear()
    working = asyncio.create_task(stage.worker.handle(other))
    await stage.conversion.begun.acquire()
    for _ in range(100):
        with pytest.raises(OverloadedError):
            await stage.worker.handle(message)
    stage.conversion.goes_on.set()
    await working
    for _ in range(3 * MOST_ATTEMPTS):
        stopping = stage.another_worker(held := FakeConversion())
        held.goes_on.clear()
        work = asyncio.create_task(stopping.handle(message))
        await held.begun.acquire()
        await stopping.drain()
        with pytest.raises(AbandonedError):
            await work

    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_a_text_takes_turns_and_the_time_of_others_does_not_count_to_its_deadline() -> None:
    stage = Stage(running=1)
    stage.conversion.passes_on = True
    stage.conversion.goes_on.clear()
    message = await stage.add()
    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()

    async def run_between() -> None:
        async with stage.admission.turn():
            await asyncio.sleep(2 * DEADLINE)

    between = asyncio.create_task(run_between())
    await asyncio.sleep(1.0)
    assert not between.done()
    stage.conversion.goes_on.set()
    await working

    assert between.done()
    assert (await stage.voice(message)).status is Status.DONE


@pytest.mark.parametrize("state", ["done", "failed"])
def test_a_duplicate_for_a_finished_voice_is_acknowledged_and_changes_nothing(
    state: str, book: LogBook
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage, voice = Stage(), EVERY_STATE[state]()
        message = await stage.add(voice)
        await stage.worker.handle(message)
        assert (await stage.voice(message), stage.conversion.runs) == (voice, [])

    run()
    (entry,) = book.of("duplicate")
    assert f"is {state}" in entry["reason"]


@in_virtual_time
async def test_a_message_of_a_deleted_voice_is_acknowledged(book: LogBook) -> None:
    stage = Stage()

    await stage.worker.handle(conversion_message(a_waiting().voice_id))

    (entry,) = book.of("duplicate")
    assert ("there is no voice" in entry["reason"], stage.conversion.runs) == (True, [])


@in_virtual_time
async def test_the_result_of_a_dead_worker_is_deleted_with_its_voice() -> None:
    stage, erased, other = Stage(), a_waiting().voice_id, a_waiting().voice_id
    stage.conversion.results = {f"{erased}/1.wav", f"{erased}/2.wav", f"{other}/1.wav"}

    await stage.worker.handle(conversion_message(erased))

    assert stage.conversion.results == {f"{other}/1.wav"}


@in_virtual_time
async def test_a_conversion_message_may_come_before_the_upload_was_recorded() -> None:
    stage = Stage()
    message = await stage.add(a_waiting())

    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_simultaneous_copies_of_a_message_are_converted_once() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()

    first = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    with pytest.raises(LeaseHeldError):
        await stage.worker.handle(message)
    stage.conversion.goes_on.set()
    await first

    assert (await stage.voice(message)).attempt == 1
    assert stage.conversion.runs == [1]


@in_virtual_time
async def test_a_duplicate_that_waits_for_a_finished_conversion_is_over_with_it() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()

    both = [asyncio.create_task(stage.worker.handle(message)) for _ in range(2)]
    await stage.conversion.begun.acquire()
    stage.conversion.goes_on.set()
    await asyncio.gather(*both)

    assert stage.conversion.runs == [1]


@in_virtual_time
async def test_a_dead_workers_voice_is_taken_over_when_its_lease_ends(book: LogBook) -> None:
    stage = Stage()
    message = await stage.add()
    await stage.take_over(message)
    stage.conversion.results.add(f"{_voice_id(message)}/1.wav")

    await stage.worker.handle(message)

    done = await stage.voice(message)
    assert (done.status, done.attempt) == (Status.DONE, 2)
    assert LEASE.total_seconds() <= asyncio.get_running_loop().time() < LEASE.total_seconds() + 1
    assert [entry["attempt"] for entry in book.of("lease_taken_over")] == [2]
    # The dead worker's uncommitted result is deleted.
    assert stage.conversion.results == {f"{done.voice_id}/2.wav"}


@in_virtual_time
async def test_a_worker_that_lost_its_lease_commits_and_leaves_nothing(book: LogBook) -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()

    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    await stage.take_over(message)
    before = await stage.voice(message)
    stage.conversion.after_storing.set()
    with pytest.raises(LeaseLostError):
        await working

    assert (await stage.voice(message), stage.conversion.results) == (before, set())
    assert len(book.of("lease_lost")) == 1
    assert book.of("conversion_done") == []


@in_virtual_time
async def test_a_worker_that_lost_its_lease_deletes_its_own_result_beside_anothers() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()
    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    await stage.take_over(message)
    other = await stage.voice(message)
    result = a_result(other.voice_id, other.attempt)
    stage.conversion.results.add(result.object)
    await change(
        stage.voices,
        other.voice_id,
        partial(voices_of.finish, attempt=2, result=result, seconds=1.0, timings={}),
    )

    stage.conversion.after_storing.set()
    with pytest.raises(LeaseLostError):
        await working

    assert stage.conversion.results == {result.object}


@pytest.mark.parametrize("outcome", [None, ERROR])
def test_the_recording_of_a_final_voice_is_discarded_also_when_its_message_comes_again(
    outcome: VoiceError | None,
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.conversion.outcome = outcome
        for times in (1, 2):
            await stage.worker.handle(message)
            assert stage.conversion.recordings_discarded == times

    run()


@pytest.mark.parametrize(
    ("voice", "end"),
    [
        (a_queued(), Status.DONE),
        (EVERY_STATE["failed"](), Status.FAILED),
        (replace(a_queued(), attempt=MOST_ATTEMPTS), Status.FAILED),
    ],
    ids=["converted", "final already", "given up"],
)
def test_who_waits_for_a_voice_is_told_its_end_before_its_recording_is_discarded(
    voice: Voice, end: Status
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add(voice)
        told: list[tuple[Voice, int]] = []
        job = ConversionJob(
            voice.voice_id,
            take=partial(take_lease, stage.voices, voice.voice_id, an_upload(voice.voice_id)),
            turn=Admission(running=1, waiting=0).running,
            run=cast("Conversion", stage.conversion).run,
            ended=lambda final: told.append((final, stage.conversion.recordings_discarded)),
        )

        returned = await stage.worker.carry_out(job)

        final = await stage.voice(message)
        assert (final.status, returned, told) == (end, final, [(final, 0)])
        assert stage.conversion.recordings_discarded == 1

    run()


@in_virtual_time
async def test_the_recording_is_kept_while_it_may_be_tried_again() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.outcome = MemoryError("no room")

    with pytest.raises(MemoryError):
        await stage.worker.handle(message)

    assert stage.conversion.recordings_discarded == 0


@in_virtual_time
async def test_a_renewal_that_finds_the_lease_lost_ends_the_work_and_leaves_nothing() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()

    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    await stage.take_over(message)
    with pytest.raises(LeaseLostError):
        await working

    assert stage.conversion.results == set()
    assert stage.conversion.running == 0


@in_virtual_time
async def test_a_slow_cleanup_does_not_lose_the_result() -> None:
    stage = Stage()
    message = await stage.add()
    await stage.take_over(message)
    stage.conversion.results.add(f"{_voice_id(message)}/1.wav")
    stage.conversion.tidying_seconds = 10 * LEASE.total_seconds()

    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.DONE
    assert stage.conversion.results == {f"{_voice_id(message)}/2.wav"}


@pytest.mark.parametrize("error", [None, ERROR], ids=["done", "failed"])
def test_after_a_failed_cleanup_the_voice_is_done_and_its_message_is_redelivered(
    error: VoiceError | None, book: LogBook
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        await stage.take_over(message)
        stage.conversion.results.add(f"{_voice_id(message)}/1.wav")
        stage.conversion.outcome, stage.conversion.tidying_fails = error, 1
        end = Status.FAILED if error else Status.DONE

        with pytest.raises(StorageUnavailableError):
            await stage.worker.handle(message)
        assert (await stage.voice(message)).status is end
        assert f"{_voice_id(message)}/1.wav" in stage.conversion.results

        await stage.worker.handle(message)
        assert (await stage.voice(message)).status is end
        assert f"{_voice_id(message)}/1.wav" not in stage.conversion.results

    run()
    assert len(book.of("conversion_failed" if error else "conversion_done")) == 1
    assert book.of("lease_not_released") == []


@pytest.mark.parametrize("is_late", [False, True])
def test_if_a_failure_cannot_be_stored_the_voice_is_released(*, is_late: bool) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.conversion.outcome = ERROR
        stage.conversion.goes_on.clear()
        working = asyncio.create_task(stage.worker.handle(message))
        await stage.conversion.begun.acquire()
        if is_late:
            await asyncio.sleep(DEADLINE - 0.5)
        else:
            stage.conversion.goes_on.set()
        stage.voices.unavailable = 1
        with pytest.raises(StoreUnavailableError):
            await working

        handed_back = await stage.voice(message)
        assert handed_back.status is Status.CONVERTING
        assert handed_back.lease_remaining(stage.voices.now()) == timedelta(0)

    run()


@in_virtual_time
async def test_a_commit_that_looks_like_a_lost_lease_keeps_its_result() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()
    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    result = a_result(_voice_id(message))

    def commit(voice: Voice, now: datetime) -> Voice:
        return voices_of.finish(voice, now, 1, result, seconds=2.5, timings={})

    await change(stage.voices, _voice_id(message), commit)
    with pytest.raises(LeaseLostError):
        await working

    assert stage.conversion.results == {result.object}


@in_virtual_time
async def test_a_voice_deleted_during_its_conversion_leaves_nothing_behind() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()

    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    await stage.voices.delete(_voice_id(message))
    stage.conversion.after_storing.set()
    with pytest.raises(LeaseLostError):
        await working
    assert stage.conversion.results == set()

    await stage.worker.handle(message)


@in_virtual_time
async def test_a_lease_lost_at_the_moment_of_failing_fails_nothing() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()
    stage.conversion.outcome = ERROR

    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    await stage.take_over(message)
    stage.conversion.goes_on.set()
    with pytest.raises(LeaseLostError):
        await working

    assert (await stage.voice(message)).status is Status.CONVERTING


@in_virtual_time
async def test_if_a_commit_cannot_be_stored_the_message_is_redelivered() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()
    working = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()
    stage.voices.unavailable = 1
    stage.conversion.goes_on.set()
    with pytest.raises(StoreUnavailableError):
        await working

    await stage.worker.handle(message)
    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_a_draining_worker_hands_everything_back_at_once_and_takes_no_more() -> None:
    stage = Stage(running=1, waiting=5)
    messages = [await stage.add() for _ in range(3)]
    stage.conversion.goes_on.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in messages]
    await stage.conversion.begun.acquire()
    await settle()

    await stage.worker.drain()

    # From here on the process may be killed.
    free = [(await stage.voice(m)).lease_remaining(stage.voices.now()) for m in messages]
    assert free == [timedelta(0)] * 3
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert list(map(repr, outcomes)) == ["AbandonedError('the voice was handed back')"] * 3
    assert asyncio.get_running_loop().time() == 0.0
    with pytest.raises(AbandonedError, match=r"^this instance stops$"):
        await stage.worker.handle(messages[0])

    # Also those that only waited for their turn are free for another instance now.
    fresh = FakeConversion()
    another = stage.another_worker(fresh)
    for message in messages:
        await another.handle(message)
        assert (await stage.voice(message)).status is Status.DONE
    assert (fresh.runs, asyncio.get_running_loop().time()) == ([2, 2, 2], 0.0)


@in_virtual_time
async def test_draining_an_idle_worker_is_nothing() -> None:
    await Stage().worker.drain()


@in_virtual_time
async def test_a_request_that_is_cut_off_hands_its_voice_back() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()
    request = asyncio.create_task(stage.worker.handle(message))
    await stage.conversion.begun.acquire()

    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    stage.conversion.goes_on.set()
    await stage.worker.handle(message)
    assert asyncio.get_running_loop().time() == 0.0
    assert (await stage.voice(message)).attempt == 2


@in_virtual_time
async def test_a_conversion_over_its_deadline_fails_and_the_process_is_known_to_be_stuck(
    book: LogBook,
) -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()

    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (Status.FAILED, ErrorCode.DEADLINE_EXCEEDED)
    assert failed.error.message == "The conversion took more than 60 seconds."
    assert stage.worker.is_stuck
    assert asyncio.get_running_loop().time() == DEADLINE
    assert [entry["code"] for entry in book.of("conversion_failed")] == ["deadline_exceeded"]


@pytest.mark.parametrize("stage_at_the_deadline", ["reading", "decoding", "storing"])
def test_a_process_whose_storage_or_decoder_was_slow_is_not_stuck_and_goes_on(
    stage_at_the_deadline: str,
) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        stage.conversion.stage = stage_at_the_deadline
        stage.conversion.goes_on.clear()
        slow, next_one = await stage.add(), await stage.add()

        await stage.worker.handle(slow)
        failed = await stage.voice(slow)
        assert failed.error is not None
        assert failed.error.code is ErrorCode.DEADLINE_EXCEEDED
        assert not stage.worker.is_stuck

        stage.conversion.goes_on.set()
        await stage.worker.handle(next_one)
        assert (await stage.voice(next_one)).status is Status.DONE

    run()


@pytest.mark.parametrize("stage_at_the_deadline", ["speaking", "encoding"])
def test_a_process_whose_text_engine_or_encoder_hangs_is_stuck(stage_at_the_deadline: str) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        stage.conversion.stage = stage_at_the_deadline
        stage.conversion.goes_on.clear()

        await stage.worker.handle(await stage.add())

        assert stage.worker.is_stuck

    run()


@in_virtual_time
async def test_a_thread_that_outlives_its_voice_for_too_long_makes_the_process_stuck() -> None:
    stage = Stage()
    message = await stage.add()
    stage.characters.loading_seconds = DEADLINE - 10
    stage.conversion.goes_on.clear()
    with pytest.raises(CharacterLateError):
        await stage.worker.handle(message)

    stage.conversion.threads.seconds = 10.0
    assert not stage.worker.is_stuck

    stage.conversion.threads.seconds = DEADLINE + 1
    assert stage.another_worker().is_stuck
    with pytest.raises(AbandonedError):
        await stage.worker.handle(message)


@in_virtual_time
async def test_a_conversion_over_its_deadline_after_storing_leaves_nothing_behind() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()

    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.FAILED
    assert stage.conversion.results == set()


@in_virtual_time
async def test_the_result_of_a_late_conversion_is_deleted_when_its_message_is_redelivered() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.after_storing.clear()
    stage.conversion.tidying_fails = 1
    with pytest.raises(StorageUnavailableError):
        await stage.worker.handle(message)
    assert stage.conversion.results

    await stage.another_worker().handle(message)

    assert stage.conversion.results == set()


@in_virtual_time
async def test_a_stuck_process_takes_no_more_and_leaves_it_to_another() -> None:
    stage = Stage()
    stage.conversion.goes_on.clear()
    await stage.worker.handle(await stage.add())
    assert stage.worker.is_stuck
    message = await stage.add()

    with pytest.raises(AbandonedError):
        await stage.worker.handle(message)
    assert (await stage.voice(message)).status is Status.QUEUED

    stage.conversion.goes_on.set()
    await stage.another_worker().handle(message)
    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_a_voice_error_at_the_deadline_is_the_voices_error() -> None:
    stage = Stage()
    message = await stage.add()
    stage.conversion.outcome = VoiceError(ErrorCode.TOO_LONG, "It is too long.")

    await stage.worker.handle(message)

    assert not stage.worker.is_stuck


@in_virtual_time
async def test_waiting_in_the_queue_does_not_count_towards_the_deadline() -> None:
    stage = Stage(running=1, waiting=1)
    first, second = await stage.add(), await stage.add()
    stage.conversion.goes_on.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in (first, second)]
    await asyncio.sleep(DEADLINE - 1)
    stage.conversion.goes_on.set()
    await asyncio.gather(*works)

    assert [(await stage.voice(message)).status for message in (first, second)] == [Status.DONE] * 2
    assert (await stage.voice(second)).attempt == 1


@in_virtual_time
async def test_an_old_process_gives_a_voice_as_much_time_as_a_new_one() -> None:
    await asyncio.sleep(1000)
    stage = Stage()
    message = await stage.add()
    stage.conversion.goes_on.clear()
    asyncio.get_running_loop().call_later(DEADLINE - 1, stage.conversion.goes_on.set)

    await stage.worker.handle(message)

    assert (await stage.voice(message)).status is Status.DONE


@in_virtual_time
async def test_messages_beyond_the_capacity_are_refused_unread() -> None:
    stage = Stage(running=1, waiting=1)
    messages = [await stage.add() for _ in range(3)]
    stage.conversion.goes_on.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in messages[:2]]
    await settle()

    with pytest.raises(OverloadedError):
        await stage.worker.handle(messages[2])
    assert (await stage.voice(messages[2])).status is Status.QUEUED

    stage.conversion.goes_on.set()
    await asyncio.gather(*works)
    await stage.worker.handle(messages[2])
    assert stage.conversion.most_running == 1
    assert (await stage.voice(messages[2])).status is Status.DONE


@in_virtual_time
async def test_a_malformed_message_takes_no_place() -> None:
    stage = Stage(running=1, waiting=0)

    for _ in range(3):
        with pytest.raises(MalformedMessageError):
            await stage.worker.handle(PushMessage(b"{}"))


@in_virtual_time
async def test_a_voice_whose_character_is_loading_takes_no_place_from_others() -> None:
    stage = Stage(running=1)
    slow, quick = await stage.add(), await stage.add()
    stage.characters.loading_seconds = 20.0
    first = asyncio.create_task(stage.worker.handle(slow))
    await settle()
    stage.characters.loading_seconds = 0.0

    await stage.worker.handle(quick)

    assert (await stage.voice(quick)).status is Status.DONE
    assert (await stage.voice(slow)).status is Status.CONVERTING
    await first
    assert (await stage.voice(slow)).status is Status.DONE
    assert stage.characters.lent == 0


@in_virtual_time
async def test_an_unknown_character_fails_the_voice() -> None:
    stage = Stage()
    message = await stage.add()
    stage.characters.outcome = unknown_character("mei")

    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.UNKNOWN_CHARACTER


@pytest.mark.parametrize("seconds", [DEADLINE + 1, DEADLINE - 10])
def test_a_voice_whose_character_was_loaded_late_is_handed_back(seconds: float) -> None:
    @in_virtual_time
    async def run() -> None:
        stage = Stage()
        message = await stage.add()
        stage.characters.loading_seconds = seconds
        stage.conversion.goes_on.clear()

        with pytest.raises(CharacterLateError, match=r"mei (is not loaded yet|was loaded late)"):
            await stage.worker.handle(message)
        assert asyncio.get_running_loop().time() == DEADLINE
        assert (await stage.voice(message)).status is Status.CONVERTING
        assert (stage.characters.lent, stage.worker.is_stuck) == (0, False)

        stage.characters.loading_seconds = 0.0
        stage.conversion.goes_on.set()
        await stage.worker.handle(message)
        assert (await stage.voice(message)).status is Status.DONE

    run()


@in_virtual_time
async def test_a_character_that_was_loaded_quickly_excuses_no_late_conversion() -> None:
    stage = Stage()
    message = await stage.add()
    stage.characters.loading_seconds = 1.0
    stage.conversion.goes_on.clear()

    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.DEADLINE_EXCEEDED


@in_virtual_time
async def test_while_others_come_a_client_cannot_take_all_places() -> None:
    stage = Stage(running=2, waiting=8)
    stage.conversion.goes_on.clear()
    honest, *greedy = [await stage.add() for _ in range(4)]
    with_client = partial(_of_client, "greedy")
    works = [asyncio.create_task(stage.worker.handle(_of_client("honest", honest)))]
    await stage.conversion.begun.acquire()
    works.append(asyncio.create_task(stage.worker.handle(with_client(greedy[0]))))
    await stage.conversion.begun.acquire()

    for message in greedy[1:]:
        with pytest.raises(OverloadedError):
            # Otherwise it would wait for its turn.
            async with asyncio.timeout(1):
                await stage.worker.handle(with_client(message))
        assert (await stage.voice(message)).attempt == 0
    stage.conversion.goes_on.set()
    await asyncio.gather(*works)
    await stage.worker.handle(with_client(greedy[1]))


@pytest.mark.parametrize(
    ("error", "rests"),
    [
        (VoiceError(ErrorCode.TOO_COMPLEX, "Too much."), True),
        (ResourceLimitError("killed"), True),
        (VoiceError(ErrorCode.SILENT, "Silence."), False),
        (ValueError("a mistake of ours"), False),
        (None, False),
    ],
)
async def test_after_a_hostile_recording_its_client_rests_while_others_come(
    error: Exception | None, *, rests: bool
) -> None:
    stage = Stage()
    await stage.worker.handle(_of_client("honest", await stage.add()))
    stage.conversion.outcome = error
    with suppress(ResourceLimitError):
        await stage.worker.handle(_of_client("hostile", await stage.add()))
    stage.conversion.outcome = None

    await stage.worker.handle(_of_client("honest", await stage.add()))
    with pytest.raises(OverloadedError) if rests else nullcontext():
        await stage.worker.handle(_of_client("hostile", await stage.add()))


def _of_client(client: str, message: PushMessage) -> PushMessage:
    wish = parse_conversion_message(message)
    return PushMessage(replace(wish, client=client).encode(), message.attributes)
