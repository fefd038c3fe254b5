"""The outcome of an attempt: done, failed, refused or repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import time_machine
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.container.admission import REST_SECONDS
from shared.conversion.worker import CharacterLateError
from shared.runtime.push import AbandonedError, OverloadedError
from shared.runtime.traces import SpanTraces
from shared.speech.decoding.process_output import ResourceLimitError
from shared.voices.messages import MalformedMessageError, PushMessage
from shared.voices.voice import (
    LEASE,
    MOST_ATTEMPTS,
    ErrorCode,
    Status,
    VoiceError,
)
from tests.support.clock import loop_seconds
from tests.support.conversion import DEADLINE, PATIENCE, WorkerStage, voice_id_of
from tests.support.logs import logged_as
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import (
    ERROR,
    a_converting,
    a_done,
    a_queued,
    is_sentence,
)

if TYPE_CHECKING:
    from shared.voices.store import Snapshot
    from tests.support.logs import LogBook


@in_virtual_time
async def test_a_message_ends_with_its_voice_done(stage: WorkerStage, book: LogBook) -> None:
    message = await stage.handle_new()

    done = await stage.voice(message)
    assert (done.status, done.attempt) == (Status.DONE, 1)
    assert done.result == stage.conversion.result(done.voice_id)
    assert done.input is not None
    assert (done.input.seconds, done.timings) == (2.5, {"decode": 1.0})
    assert stage.worker.has_converted
    (started,), (ended,) = book.of("conversion_started"), book.of("conversion_done")
    assert (started["voice"], started["attempt"]) == (logged_as(done.voice_id), 1)
    assert (ended["seconds"], ended["stages"], ended["character"]) == (2.5, {"decode": 1.0}, "mei")
    # Nothing went wrong on the way, and a first attempt leaves nothing to search for.
    assert [entry for entry in book.entries if entry["severity"] == "ERROR"] == []
    assert stage.conversion.searches == 0

    await stage.handle_new()
    assert [entry["cold"] for entry in book.of("conversion_started")] == [True, False]


@in_virtual_time
async def test_the_log_tells_for_how_many_milliseconds_a_visitor_has_waited(
    stage: WorkerStage, book: LogBook
) -> None:
    message = await stage.add()

    with time_machine.travel(datetime(2026, 3, 4, 5, 6, 9, 500_000, UTC), tick=False):
        await stage.worker.handle(message)

    assert [entry["wait_ms"] for entry in book.of("conversion_done")] == [2376.5]


@pytest.mark.parametrize("moment", [None, "yesterday", "2026-03-04T05:06:07"])
@in_virtual_time
async def test_a_message_without_the_uploads_time_is_converted_all_the_same(
    stage: WorkerStage, moment: str | None, book: LogBook
) -> None:
    message = await stage.add()
    attributes = {} if moment is None else {"uploaded_at": moment}
    await stage.worker.handle(replace(message, attributes=attributes))
    assert await stage.status(message) is Status.DONE
    assert "wait_ms" not in book.of("conversion_done")[0]


@in_virtual_time
async def test_a_permanent_error_fails_the_voice_and_is_in_the_log_and_the_trace(
    book: LogBook,
) -> None:
    spans = InMemorySpanExporter()
    traces = SpanTraces(SimpleSpanProcessor(spans), Resource({}), "a key for tests")
    stage = WorkerStage(traces=traces)
    stage.conversion.error = ERROR
    message = await stage.handle_new()

    failed = await stage.voice(message)
    assert (failed.status, failed.error and failed.error.code) == (Status.FAILED, ErrorCode.SILENT)
    (entry,) = book.of("conversion_failed")
    assert (entry["code"], entry["attempt"], entry["character"]) == ("silent", 1, "mei")
    assert book.of("conversion_done") == []
    (attempt,) = [span for span in spans.get_finished_spans() if span.name == "attempt"]
    assert attempt.attributes == {"attempt": 1, "character": "mei"}
    assert attempt.status.description == "silent"


@in_virtual_time
async def test_a_mistake_of_the_program_fails_the_voice_at_once_and_is_logged_with_its_trace(
    stage: WorkerStage, book: LogBook
) -> None:
    stage.conversion.error = ValueError("a mistake")
    message = await stage.handle_new()

    failed = await stage.voice(message)
    assert failed.error is not None
    assert (failed.error.code, failed.attempt) == (ErrorCode.INTERNAL, 1)
    assert is_sentence(failed.error.message)
    assert "a mistake" not in failed.error.message
    assert (stage.conversion.attempts, stage.conversion.recordings_discarded) == ([1], 1)
    assert not stage.worker.is_stuck
    (entry,) = book.of("unexpected_error")
    assert entry["severity"] == "ERROR"
    assert "support/conversion.py" in entry["stack_trace"]
    assert [entry["code"] for entry in book.of("conversion_failed")] == ["internal"]


@in_virtual_time
async def test_a_recording_that_hits_a_limit_of_the_machine_has_two_attempts(
    stage: WorkerStage,
) -> None:
    message = await stage.add()
    stage.conversion.error = ResourceLimitError("killed")

    with pytest.raises(ResourceLimitError):
        await stage.worker.handle(message)
    await stage.worker.handle(message)

    failed = await stage.voice(message)
    assert failed.error is not None
    assert (failed.error.code, failed.attempt) == (ErrorCode.TOO_COMPLEX, 2)
    assert is_sentence(failed.error.message)


@in_virtual_time
async def test_a_voice_that_fails_again_and_again_is_given_up_and_leaves_nothing(
    stage: WorkerStage, book: LogBook
) -> None:
    message = await stage.add(replace(a_queued(), attempt=MOST_ATTEMPTS - 1))
    stage.conversion.results = {f"{voice_id_of(message)}/2.wav"}
    stage.conversion.error = MemoryError("no room")
    with pytest.raises(MemoryError):
        await stage.worker.handle(message)
    runs = len(stage.conversion.attempts)

    await stage.worker.handle(message)

    assert await stage.error_code(message) is ErrorCode.ATTEMPTS_EXHAUSTED
    assert (len(stage.conversion.attempts), stage.conversion.results) == (runs, set())
    (entry,) = book.of("conversion_failed")
    assert entry["code"] == "attempts_exhausted"
    assert f"{MOST_ATTEMPTS} attempts" in entry["message"]


@in_virtual_time
async def test_a_text_takes_turns_and_the_time_of_others_does_not_count_to_its_deadline() -> None:
    stage = WorkerStage(running=1)
    stage.conversion.passes_on = True
    stage.conversion.may_make.clear()
    message = await stage.add()
    working = await stage.begin(message)

    async def run_between() -> None:
        async with stage.admission.turn():
            await asyncio.sleep(2 * DEADLINE)

    between = asyncio.create_task(run_between())
    await asyncio.sleep(1.0)
    assert not between.done()
    stage.conversion.may_make.set()
    await working

    assert between.done()
    assert await stage.status(message) is Status.DONE


@in_virtual_time
async def test_a_conversion_over_its_deadline_fails_and_the_process_is_known_to_be_stuck(
    stage: WorkerStage, book: LogBook
) -> None:
    stage.conversion.may_make.clear()
    message = await stage.handle_new()

    failed = await stage.voice(message)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (Status.FAILED, ErrorCode.DEADLINE_EXCEEDED)
    assert failed.error.message == "The conversion took more than 60 seconds."
    assert stage.worker.is_stuck
    assert loop_seconds() == DEADLINE
    assert [entry["code"] for entry in book.of("conversion_failed")] == ["deadline_exceeded"]


@pytest.mark.parametrize(
    ("stage_at_the_deadline", "hangs"),
    [
        ("reading", False),
        ("decoding", False),
        ("storing", False),
        ("speaking", True),
        ("encoding", True),
    ],
)
@in_virtual_time
async def test_a_process_is_stuck_if_a_thread_hangs_but_not_if_storage_or_decoder_are_slow(
    stage: WorkerStage, stage_at_the_deadline: str, *, hangs: bool
) -> None:
    stage.conversion.stage = stage_at_the_deadline
    stage.conversion.may_make.clear()

    message = await stage.handle_new()

    assert await stage.error_code(message) is ErrorCode.DEADLINE_EXCEEDED
    assert stage.worker.is_stuck is hangs


@in_virtual_time
async def test_a_thread_that_outlives_its_voice_for_too_long_makes_the_process_stuck(
    stage: WorkerStage,
) -> None:
    message = await stage.add()
    stage.characters.loading_seconds = DEADLINE - 10
    stage.conversion.may_make.clear()
    with pytest.raises(CharacterLateError):
        await stage.worker.handle(message)

    stage.conversion.threads.seconds = 10.0
    assert not stage.worker.is_stuck

    stage.conversion.threads.seconds = DEADLINE + 1
    assert stage.another_worker().is_stuck
    with pytest.raises(AbandonedError):
        await stage.worker.handle(message)


@in_virtual_time
async def test_waiting_in_the_queue_does_not_count_towards_the_deadline() -> None:
    stage = WorkerStage(running=1, waiting=1, patience=None)
    first, second = await stage.add(), await stage.add()
    stage.conversion.may_make.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in (first, second)]
    await asyncio.sleep(DEADLINE - 1)
    stage.conversion.may_make.set()
    await asyncio.gather(*works)

    assert [await stage.status(message) for message in (first, second)] == [Status.DONE] * 2
    assert (await stage.voice(second)).attempt == 1


@in_virtual_time
async def test_an_old_process_gives_a_voice_as_much_time_as_a_new_one(stage: WorkerStage) -> None:
    await asyncio.sleep(1000)
    stage.conversion.may_make.clear()
    asyncio.get_running_loop().call_later(DEADLINE - 1, stage.conversion.may_make.set)
    message = await stage.handle_new()

    assert await stage.status(message) is Status.DONE


@in_virtual_time
async def test_messages_beyond_the_capacity_are_refused_unread() -> None:
    stage = WorkerStage(running=1, waiting=1)
    messages = [await stage.add() for _ in range(3)]
    stage.conversion.may_make.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in messages[:2]]
    await settle()

    with pytest.raises(OverloadedError):
        await stage.worker.handle(messages[2])
    assert await stage.status(messages[2]) is Status.QUEUED

    stage.conversion.may_make.set()
    await asyncio.gather(*works)
    await stage.worker.handle(messages[2])
    assert stage.conversion.most_running == 1
    assert await stage.status(messages[2]) is Status.DONE


@in_virtual_time
async def test_a_malformed_message_takes_no_place() -> None:
    stage = WorkerStage(running=1, waiting=0)

    for _ in range(3):
        with pytest.raises(MalformedMessageError):
            await stage.worker.handle(PushMessage(b"{}"))


@in_virtual_time
async def test_a_voice_whose_character_is_loading_takes_no_place_from_others() -> None:
    stage = WorkerStage(running=1)
    slow, quick = await stage.add(), await stage.add()
    stage.characters.loading_seconds = 20.0
    first = asyncio.create_task(stage.worker.handle(slow))
    await settle()
    stage.characters.loading_seconds = 0.0

    await stage.worker.handle(quick)

    assert await stage.status(quick) is Status.DONE
    assert await stage.status(slow) is Status.CONVERTING
    await first
    assert await stage.status(slow) is Status.DONE
    assert stage.characters.lent == 0


@pytest.mark.parametrize("seconds", [DEADLINE + 1, DEADLINE - 10])
@in_virtual_time
async def test_a_voice_whose_character_was_loaded_late_is_handed_back(
    stage: WorkerStage, seconds: float
) -> None:
    message = await stage.add()
    stage.characters.loading_seconds = seconds
    stage.conversion.may_make.clear()

    with pytest.raises(CharacterLateError, match=r"mei (is not loaded yet|was loaded late)"):
        await stage.worker.handle(message)
    assert loop_seconds() == DEADLINE
    assert await stage.status(message) is Status.CONVERTING
    assert (stage.characters.lent, stage.worker.is_stuck) == (0, False)

    stage.characters.loading_seconds = 0.0
    stage.conversion.may_make.set()
    await stage.worker.handle(message)
    assert await stage.status(message) is Status.DONE


@in_virtual_time
async def test_a_character_that_was_loaded_quickly_excuses_no_late_conversion(
    stage: WorkerStage,
) -> None:
    stage.characters.loading_seconds = 1.0
    stage.conversion.may_make.clear()
    message = await stage.handle_new()

    assert await stage.error_code(message) is ErrorCode.DEADLINE_EXCEEDED


@in_virtual_time
async def test_a_message_that_gets_no_place_in_time_is_refused_and_costs_no_attempt() -> None:
    stage = WorkerStage(running=1, waiting=1)
    message, other = await stage.add(), await stage.add()
    stage.conversion.may_make.clear()
    working = await stage.begin(other)

    with pytest.raises(OverloadedError, match="within 15 s"):
        await stage.worker.handle(message)
    assert loop_seconds() == PATIENCE
    await stage.require_free(message)
    assert (await stage.voice(message)).counted_attempts == 0

    stage.conversion.may_make.set()
    await working
    await stage.worker.handle(message)
    assert await stage.status(message) is Status.DONE


@pytest.mark.parametrize(
    ("error", "rests"),
    [
        (VoiceError(ErrorCode.TOO_COMPLEX, "Too much."), True),
        (ResourceLimitError("killed"), True),
        (VoiceError(ErrorCode.SILENT, "Silence."), False),
    ],
)
@in_virtual_time
async def test_after_a_hostile_recording_its_client_rests_while_others_come(
    stage: WorkerStage, error: Exception | None, *, rests: bool
) -> None:
    await stage.worker.handle(await stage.add(client="honest"))
    stage.conversion.error = error
    with suppress(ResourceLimitError):
        await stage.worker.handle(await stage.add(client="hostile"))
    stage.conversion.error = None

    await stage.worker.handle(await stage.add(client="honest"))
    await stage.worker.handle(await stage.add(client="hostile"))

    assert loop_seconds() == (REST_SECONDS if rests else 0.0)


@in_virtual_time
async def test_a_voice_that_is_done_before_it_is_given_up_stays_done(
    stage: WorkerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its last attempt has lost the lease, and ends before the voice is given up.
    message = await stage.add(replace(a_converting(), attempt=MOST_ATTEMPTS))
    await asyncio.sleep(LEASE.total_seconds())
    read = stage.voices.read

    async def read_before_its_end(voice_id: str) -> Snapshot:
        snapshot = await read(voice_id)
        if not snapshot.voice.status.is_final:
            await stage.voices.replace(snapshot, replace(a_done(), voice_id=voice_id))
        return snapshot

    monkeypatch.setattr(stage.voices, "read", read_before_its_end)

    await stage.worker.handle(message)

    assert await stage.status(message) is Status.DONE
