"""The recordings and results that a worker deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from shared.conversion.worker import QueuedAttempt
from shared.voices.objects import StorageUnavailableError
from shared.voices.voice import (
    LEASE,
    MOST_ATTEMPTS,
    ErrorCode,
    Status,
    VoiceError,
)
from tests.support.conversion import WorkerStage, voice_id_of
from tests.support.messages import conversion_message
from tests.support.virtual_time import in_virtual_time
from tests.support.voices import (
    ERROR,
    EVERY_STATE,
    a_queued,
    a_waiting,
)

if TYPE_CHECKING:
    from shared.conversion.stages import Conversion
    from shared.voices.voice import Voice
    from tests.support.logs import LogBook


@in_virtual_time
async def test_a_mistake_after_the_result_was_stored_leaves_no_result(stage: WorkerStage) -> None:
    stage.conversion.store_error = ValueError("a mistake")
    message = await stage.handle_new()

    assert await stage.error_code(message) is ErrorCode.INTERNAL
    assert stage.conversion.results == set()


@in_virtual_time
async def test_a_message_of_an_erased_voice_is_over_and_deletes_what_a_dead_worker_left(
    stage: WorkerStage, book: LogBook
) -> None:
    erased, other = a_waiting().voice_id, a_waiting().voice_id
    stage.conversion.results = {f"{erased}/1.wav", f"{erased}/2.wav", f"{other}/1.wav"}

    await stage.worker.handle(conversion_message(erased))

    assert stage.conversion.results == {f"{other}/1.wav"}
    (entry,) = book.of("duplicate")
    assert ("there is no voice" in entry["reason"], stage.conversion.attempts) == (True, [])


@pytest.mark.parametrize("outcome", [None, ERROR])
@in_virtual_time
async def test_the_recording_of_a_final_voice_is_discarded_also_when_its_message_comes_again(
    stage: WorkerStage, outcome: VoiceError | None
) -> None:
    message = await stage.add()
    stage.conversion.error = outcome
    for times in (1, 2):
        await stage.worker.handle(message)
        assert stage.conversion.recordings_discarded == times


@pytest.mark.parametrize(
    ("voice", "end"),
    [
        (a_queued(), Status.DONE),
        (EVERY_STATE["failed"](), Status.FAILED),
        (replace(a_queued(), attempt=MOST_ATTEMPTS), Status.FAILED),
    ],
    ids=["converted", "final already", "given up"],
)
@in_virtual_time
async def test_who_waits_for_a_voice_is_told_its_end_before_its_recording_is_discarded(
    stage: WorkerStage, voice: Voice, end: Status
) -> None:
    message = await stage.add(voice)
    told: list[tuple[Voice, int]] = []

    class WatchedAttempt(QueuedAttempt):
        def announce_end(self, voice: Voice) -> None:
            told.append((voice, stage.conversion.recordings_discarded))

    conversion = cast("Conversion", stage.conversion)
    attempt = WatchedAttempt(message, stage.voices, conversion, stage.admission)

    returned = await stage.worker.carry_out(attempt)

    final = await stage.voice(message)
    assert (final.status, returned, told) == (end, final, [(final, 0)])
    assert stage.conversion.recordings_discarded == 1


@in_virtual_time
async def test_a_slow_cleanup_does_not_lose_the_result(stage: WorkerStage) -> None:
    message = await stage.add()
    await stage.take_over(message)
    stage.conversion.results.add(f"{voice_id_of(message)}/1.wav")
    stage.conversion.tidying_seconds = 10 * LEASE.total_seconds()

    await stage.worker.handle(message)

    assert await stage.status(message) is Status.DONE
    assert stage.conversion.results == {f"{voice_id_of(message)}/2.wav"}


@pytest.mark.parametrize("error", [None, ERROR], ids=["done", "failed"])
@in_virtual_time
async def test_after_a_failed_cleanup_the_voice_is_done_and_its_message_is_redelivered(
    stage: WorkerStage, error: VoiceError | None, book: LogBook
) -> None:
    message = await stage.add()
    await stage.take_over(message)
    stage.conversion.results.add(f"{voice_id_of(message)}/1.wav")
    stage.conversion.error, stage.conversion.tidying_fails = error, 1
    end = Status.FAILED if error else Status.DONE

    with pytest.raises(StorageUnavailableError):
        await stage.worker.handle(message)
    assert await stage.status(message) is end
    assert f"{voice_id_of(message)}/1.wav" in stage.conversion.results

    await stage.worker.handle(message)
    assert await stage.status(message) is end
    assert f"{voice_id_of(message)}/1.wav" not in stage.conversion.results
    assert len(book.of("conversion_failed" if error else "conversion_done")) == 1
    assert book.of("lease_not_released") == []


@in_virtual_time
async def test_the_result_of_a_late_conversion_is_deleted_when_its_message_is_redelivered(
    stage: WorkerStage,
) -> None:
    message = await stage.add()
    stage.conversion.may_store.clear()
    stage.conversion.tidying_fails = 1
    with pytest.raises(StorageUnavailableError):
        await stage.worker.handle(message)
    assert stage.conversion.results

    await stage.another_worker().handle(message)

    assert stage.conversion.results == set()
