"""The lease of a voice in the hands of a worker: shared, lost, and handed back."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from shared.runtime.push import AbandonedError
from shared.voices import voice as voices_of
from shared.voices.objects import StorageUnavailableError
from shared.voices.store import StoreUnavailableError, change
from shared.voices.voice import (
    LEASE,
    LeaseHeldError,
    LeaseLostError,
    Status,
)
from tests.support.clock import loop_now, loop_seconds
from tests.support.conversion import DEADLINE, FakeConversion, WorkerStage, voice_id_of
from tests.support.virtual_time import in_virtual_time, no_lost_errors, settle
from tests.support.voices import (
    ERROR,
    EVERY_STATE,
    a_result,
    a_waiting,
)

if TYPE_CHECKING:
    from shared.voices.voice import Voice
    from tests.support.logs import LogBook


@pytest.mark.parametrize(
    "outcome", [StorageUnavailableError("down"), TimeoutError("slow"), MemoryError("no room")]
)
@in_virtual_time
async def test_a_passing_error_hands_the_voice_back_and_the_message_comes_again(
    stage: WorkerStage, outcome: Exception
) -> None:
    message = await stage.add()
    stage.conversion.error = outcome

    with pytest.raises(type(outcome)):
        await stage.worker.handle(message)
    await stage.require_free(message)

    stage.conversion.error = None
    before = loop_seconds()
    await stage.worker.handle(message)
    done = await stage.voice(message)
    assert (done.status, done.attempt) == (Status.DONE, 2)
    assert loop_seconds() == before
    assert not stage.worker.is_stuck


@in_virtual_time
async def test_a_mistake_that_cannot_be_stored_is_tried_again_and_costs_no_attempt(
    stage: WorkerStage, book: LogBook
) -> None:
    stage.conversion.error = ValueError("a mistake")
    message, working = await stage.begin_stopped()
    stage.voices.failing_writes = 1
    stage.conversion.may_make.set()
    with pytest.raises(StoreUnavailableError):
        await working
    handed_back = await stage.voice(message)
    assert (handed_back.status, handed_back.counted_attempts) == (Status.CONVERTING, 0)

    await stage.worker.handle(message)
    assert await stage.status(message) is Status.FAILED
    assert len(book.of("unexpected_error")) == 2


@pytest.mark.parametrize("state", ["done", "failed"])
@in_virtual_time
async def test_a_duplicate_for_a_finished_voice_is_acknowledged_and_changes_nothing(
    state: str, book: LogBook
) -> None:
    stage, voice = WorkerStage(), EVERY_STATE[state]()
    message = await stage.add(voice)
    await stage.worker.handle(message)
    assert (await stage.voice(message), stage.conversion.attempts) == (voice, [])
    (entry,) = book.of("duplicate")
    assert f"is {state}" in entry["reason"]


@in_virtual_time
async def test_a_conversion_message_may_come_before_the_upload_was_recorded(
    stage: WorkerStage,
) -> None:
    message = await stage.add(a_waiting())

    await stage.worker.handle(message)

    assert await stage.status(message) is Status.DONE


@in_virtual_time
async def test_simultaneous_copies_of_a_message_are_converted_once(stage: WorkerStage) -> None:
    message = await stage.add()
    stage.conversion.may_make.clear()

    first = await stage.begin(message)
    with pytest.raises(LeaseHeldError):
        await stage.worker.handle(message)
    stage.conversion.may_make.set()
    await first

    assert (await stage.voice(message)).attempt == 1
    assert stage.conversion.attempts == [1]


@in_virtual_time
async def test_a_duplicate_that_waits_for_a_finished_conversion_is_over_with_it(
    stage: WorkerStage,
) -> None:
    message = await stage.add()
    stage.conversion.may_make.clear()

    both = [asyncio.create_task(stage.worker.handle(message)) for _ in range(2)]
    await stage.conversion.begun.acquire()
    stage.conversion.may_make.set()
    await asyncio.gather(*both)

    assert stage.conversion.attempts == [1]


@in_virtual_time
async def test_a_dead_workers_voice_is_taken_over_when_its_lease_ends(
    stage: WorkerStage, book: LogBook
) -> None:
    message = await stage.add()
    await stage.take_over(message)
    stage.conversion.results.add(f"{voice_id_of(message)}/1.wav")

    await stage.worker.handle(message)

    done = await stage.voice(message)
    assert (done.status, done.attempt) == (Status.DONE, 2)
    assert LEASE.total_seconds() <= loop_seconds() < LEASE.total_seconds() + 1
    assert [entry["attempt"] for entry in book.of("lease_taken_over")] == [2]
    # The dead worker's uncommitted result is deleted.
    assert stage.conversion.results == {f"{done.voice_id}/2.wav"}


@in_virtual_time
async def test_a_worker_that_lost_its_lease_commits_and_leaves_nothing(
    stage: WorkerStage, book: LogBook
) -> None:
    message, working = await stage.begin_stopped("may_store")
    await stage.take_over(message)
    before = await stage.voice(message)
    stage.conversion.may_store.set()
    with pytest.raises(LeaseLostError):
        await working

    assert (await stage.voice(message), stage.conversion.results) == (before, set())
    assert len(book.of("lease_lost")) == 1
    assert book.of("conversion_done") == []


@in_virtual_time
async def test_a_worker_that_lost_its_lease_deletes_its_own_result_beside_anothers(
    stage: WorkerStage,
) -> None:
    message, working = await stage.begin_stopped("may_store")
    await stage.take_over(message)
    other = await stage.voice(message)
    result = a_result(other.voice_id, other.attempt)
    stage.conversion.results.add(result.object)
    await change(
        stage.voices,
        other.voice_id,
        partial(voices_of.finish, attempt=2, result=result, seconds=1.0, timings={}),
    )

    stage.conversion.may_store.set()
    with pytest.raises(LeaseLostError):
        await working

    assert stage.conversion.results == {result.object}


@pytest.mark.parametrize(("error", "is_late"), [(ERROR, False), (ERROR, True), (None, False)])
@in_virtual_time
async def test_if_an_end_cannot_be_stored_the_voice_is_handed_back_and_tried_again(
    stage: WorkerStage, error: Exception | None, *, is_late: bool
) -> None:
    stage.conversion.error = error
    message, working = await stage.begin_stopped()
    if is_late:
        await asyncio.sleep(DEADLINE - 0.5)
    else:
        stage.conversion.may_make.set()
    stage.voices.failing_writes = 1
    with pytest.raises(StoreUnavailableError):
        await working
    await stage.require_free(message)

    stage.conversion.may_make.set()
    await stage.another_worker().handle(message)
    assert await stage.status(message) is (Status.FAILED if error else Status.DONE)


@in_virtual_time
async def test_a_commit_that_looks_like_a_lost_lease_keeps_its_result(stage: WorkerStage) -> None:
    message, working = await stage.begin_stopped("may_store")
    result = stage.conversion.result(voice_id_of(message))

    def commit(voice: Voice, now: datetime) -> Voice:
        return voices_of.finish(voice, now, 1, result, seconds=2.5, timings={})

    await change(stage.voices, voice_id_of(message), commit)
    with pytest.raises(LeaseLostError):
        await working

    assert stage.conversion.results == {result.object}


@in_virtual_time
async def test_a_voice_deleted_during_its_conversion_leaves_nothing_behind(
    stage: WorkerStage,
) -> None:
    message, working = await stage.begin_stopped("may_store")
    await stage.voices.delete(voice_id_of(message))
    stage.conversion.may_store.set()
    with pytest.raises(LeaseLostError):
        await working
    assert stage.conversion.results == set()

    await stage.worker.handle(message)


@in_virtual_time
async def test_a_draining_worker_hands_everything_back_at_once_and_takes_no_more() -> None:
    stage = WorkerStage(running=1, waiting=5)
    messages = [await stage.add() for _ in range(3)]
    stage.conversion.may_make.clear()
    works = [asyncio.create_task(stage.worker.handle(message)) for message in messages]
    await stage.conversion.begun.acquire()
    await settle()

    await stage.worker.drain()

    # From here on the process may be killed.
    free = [(await stage.voice(m)).lease_remaining(loop_now()) for m in messages]
    assert free == [timedelta(0)] * 3
    assert [(await stage.voice(m)).counted_attempts for m in messages] == [0] * 3
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert list(map(repr, outcomes)) == ["AbandonedError('the voice was handed back')"] * 3
    assert loop_seconds() == 0.0
    with pytest.raises(AbandonedError, match=r"^this instance stops$"):
        await stage.worker.handle(messages[0])

    # Also those that only waited for their turn are free for another instance now.
    fresh = FakeConversion()
    another = stage.another_worker(fresh)
    for message in messages:
        await another.handle(message)
        assert await stage.status(message) is Status.DONE
    assert (fresh.attempts, loop_seconds()) == ([2, 2, 2], 0.0)


@in_virtual_time
async def test_a_request_that_is_cut_off_hands_its_voice_back(stage: WorkerStage) -> None:
    message = await stage.add()
    stage.conversion.may_make.clear()
    request = await stage.begin(message)

    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    stage.conversion.may_make.set()
    await stage.worker.handle(message)
    assert loop_seconds() == 0.0
    assert (await stage.voice(message)).attempt == 2


@in_virtual_time
async def test_a_request_that_is_cut_off_at_any_moment_leaves_no_error_behind(
    stage: WorkerStage, caplog: pytest.LogCaptureFixture
) -> None:
    # Entries of the log would keep errors, and with them their tasks.
    caplog.set_level(logging.CRITICAL, "shared.conversion.worker")
    with no_lost_errors():
        for moment in range(10):
            stage.conversion.error = LeaseLostError("taken over")
            request = asyncio.create_task(stage.worker.handle(await stage.add()))
            for _ in range(moment):
                await asyncio.sleep(0)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            await settle()
