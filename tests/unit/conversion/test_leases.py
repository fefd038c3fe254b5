from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from infra.local.cloud.memory import MemoryVoices
from shared.conversion.leases import (
    LEAST_SECONDS_BETWEEN_WRITES,
    RENEWALS,
    lease_length,
    take_lease,
)
from shared.google.firestore import CALL_SECONDS
from shared.voices import voice as voices_of
from shared.voices.store import (
    ConflictError,
    Snapshot,
    StoreUnavailableError,
    change,
)
from shared.voices.voice import (
    LEASE,
    LONGEST_LEASE,
    LeaseLostError,
    Status,
    Voice,
)
from tests.support.clock import loop_now, loop_seconds
from tests.support.virtual_time import VirtualTimeLoop, in_virtual_time
from tests.support.voices import (
    ERROR,
    NOW,
    a_queued,
    a_result,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from shared.conversion.leases import Lease
    from tests.support.logs import LogBook


class Store(MemoryVoices):
    """A store in the loop's time that counts writes, fails, is slow, and loses answers."""

    def __init__(self) -> None:
        super().__init__(now=loop_now)
        self.reads = 0
        self.writes: list[float] = []
        self.unavailable = 0
        self.error: Exception = StoreUnavailableError("down")
        self.seconds_to_error = 0.0
        self.lost_answers = 0
        self.seconds_to_answer = 0.0
        self.slower = 0.0

    def voice(self, lease: Lease) -> Voice:
        """Return a voice as it is stored, at once."""
        return self._entries[lease.voice.voice_id].voice

    async def _travel(self) -> None:
        """Take half of the time of a call."""
        if self.seconds_to_answer:
            await asyncio.sleep(self.seconds_to_answer / 2)

    async def read(self, voice_id: str) -> Snapshot:
        self.reads += 1
        await self._travel()
        snapshot = await super().read(voice_id)
        await self._travel()
        return snapshot

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.unavailable:
            self.unavailable -= 1
            await asyncio.sleep(self.seconds_to_error)
            raise self.error
        self.seconds_to_answer += self.slower
        await self._travel()
        written = await super().replace(snapshot, voice)
        await self._travel()
        self.writes.append(loop_seconds())
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConflictError("the retry of a write that had succeeded")
        return written


async def leased(store: Store, voice: Voice | None = None) -> Lease:
    voice = voice or a_queued()
    await store.create(voice)
    lease = await take_lease(store, voice.voice_id, an_upload(voice.voice_id))
    store.writes.clear()
    return lease


async def a_lease() -> tuple[Store, Lease]:
    store = Store()
    return store, await leased(store)


async def stored(store: Store, lease: Lease) -> Voice:
    return (await store.read(lease.voice.voice_id)).voice


async def take_over(store: Store, lease: Lease) -> None:
    """Another worker takes the voice, whatever lease there is."""

    def steal(voice: Voice, now: datetime) -> Voice:
        free = replace(voice, lease_expires_at=None)
        return voices_of.lease(free, now, an_upload(voice.voice_id))

    await change(store, lease.voice.voice_id, steal)


@in_virtual_time
async def test_a_free_voice_is_taken_at_once() -> None:
    lease = await leased(Store())

    assert (lease.attempt, lease.voice.status, loop_seconds()) == (1, Status.CONVERTING, 0.0)
    assert lease.voice.lease_expires_at is not None
    assert timedelta(0) <= lease.voice.lease_expires_at - (NOW + LEASE) < timedelta(seconds=0.25)


@in_virtual_time
async def test_a_voice_that_was_just_read_is_leased_without_another_read() -> None:
    store, voice = Store(), a_queued()
    await store.create(voice)
    known = await Store.read(store, voice.voice_id)

    lease = await take_lease(store, voice.voice_id, an_upload(voice.voice_id), known=known)

    assert (lease.attempt, store.reads) == (1, 1)


@in_virtual_time
async def test_a_lease_whose_answer_was_lost_is_not_taken_for_another_workers() -> None:
    store = Store()
    store.lost_answers = 1

    lease = await leased(store)

    assert (lease.attempt, loop_seconds()) == (1, 0.0)
    async with lease.hold():
        await asyncio.sleep(2 * LEASE.total_seconds())
    assert (await stored(store, lease)).attempt == 1


@in_virtual_time
async def test_only_one_of_several_simultaneous_workers_gets_the_voice() -> None:
    store, voice = Store(), a_queued()
    await store.create(voice)
    # All have read the voice before one writes.
    store.error, store.unavailable = ConflictError("another was faster"), 5

    outcomes = await asyncio.gather(
        *(take_lease(store, voice.voice_id, an_upload(voice.voice_id)) for _ in range(5)),
        return_exceptions=True,
    )

    # The others wait for its end, and take over one after another.
    attempts = [lease.attempt for lease in outcomes if not isinstance(lease, BaseException)]
    assert len(attempts) == len(set(attempts))


@in_virtual_time
async def test_a_lease_is_renewed_four_times_in_its_length_however_old_the_process_is() -> None:
    await asyncio.sleep(1000)
    store, lease = await a_lease()
    begin = loop_seconds()

    async with lease.hold():
        await asyncio.sleep(60)

    pauses = [(lease_length(0.0, a - begin), b - a) for a, b in pairwise([begin, *store.writes])]
    assert [pause for _, pause in pauses] == [
        pytest.approx(length.total_seconds() / RENEWALS, abs=0.05) for length, _ in pauses
    ]
    assert (lease.stage, store.voice(lease).stage) == ("reading", "reading")


@in_virtual_time
async def test_a_renewal_that_takes_nearly_half_of_the_lease_is_waited_for(book: LogBook) -> None:
    store, lease = await a_lease()
    store.seconds_to_answer = 0.475 * LEASE.total_seconds()

    await convert_for(30, store, lease)

    assert book.of("lease_not_renewed") == []


@in_virtual_time
async def test_a_stage_is_written_soon_but_not_more_than_once_a_second() -> None:
    store, lease = await a_lease()

    async with lease.hold():
        for number in range(40):
            lease.enter_stage(f"stage {number}")
            await asyncio.sleep(0.125)
        await asyncio.sleep(2)

    pauses = [b - a for a, b in pairwise(store.writes)]
    assert min(pauses) >= LEAST_SECONDS_BETWEEN_WRITES
    assert (await stored(store, lease)).stage == "stage 39"


async def delete(store: Store, lease: Lease) -> None:
    await store.delete(lease.voice.voice_id)


@pytest.mark.parametrize(
    ("lose", "reason"), [(take_over, "attempt 1 no longer owns"), (delete, "was deleted")]
)
@in_virtual_time
async def test_a_lease_taken_by_another_or_a_deletion_stops_the_work(
    lose: Callable[[Store, Lease], Awaitable[None]], reason: str
) -> None:
    store, lease = await a_lease()

    async def work() -> None:
        async with lease.hold():
            await lose(store, lease)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLostError, match=reason):
        await work()

    await asyncio.sleep(0)  # the cancellation is used up


@pytest.mark.parametrize("error", [ConflictError("others were faster"), RuntimeError("surprise")])
@in_virtual_time
async def test_whatever_hinders_a_renewal_the_next_is_tried_and_the_end_is_the_works_own(
    error: Exception, book: LogBook
) -> None:
    store, lease = await a_lease()
    # A conflict is looked into at once, and so takes ten more.
    store.unavailable, store.error = 11, error

    async with lease.hold():
        await asyncio.sleep(60)
        assert (await stored(store, lease)).lease_remaining(loop_now()) > timedelta(0)
        await lease.finish(a_result(lease.voice.voice_id), 2.5, {})

    assert (await stored(store, lease)).status is Status.DONE
    assert book.of("lease_not_renewed")


async def convert_for(seconds: float, store: Store, lease: Lease) -> None:
    """Keep a lease for so long, and require that it never ends meanwhile."""
    end = loop_seconds() + seconds
    async with lease.hold():
        while loop_seconds() < end:
            await asyncio.sleep(0.25)
            assert store.voice(lease).lease_remaining(loop_now()) > timedelta(0), loop_seconds()


@in_virtual_time
async def test_a_long_conversion_survives_a_store_that_hangs_for_a_whole_call() -> None:
    store, lease = await a_lease()
    store.seconds_to_error = CALL_SECONDS / 2
    asyncio.get_running_loop().call_later(60, setattr, store, "unavailable", 2)

    await convert_for(300, store, lease)

    assert not store.unavailable


@pytest.mark.parametrize(
    ("seconds", "slower"), [(0.1, 0), (1.0, 0), (2.0, 0), (4.0, 0), (0.0, 0.2), (0.0, 1.0)]
)
@in_virtual_time
async def test_a_store_that_is_slow_or_becomes_slower_costs_no_worker_its_lease(
    seconds: float, slower: float
) -> None:
    store, voice = Store(), a_queued()
    await store.create(voice)
    store.seconds_to_answer = seconds
    lease = await take_lease(store, voice.voice_id, an_upload(voice.voice_id))
    store.slower = slower

    await convert_for(60, store, lease)

    assert store.voice(lease).attempt == 1


@pytest.mark.parametrize("stall", [0.5, 1.0, 2.5])
@in_virtual_time
async def test_a_worker_that_gets_no_processor_for_a_while_keeps_its_lease(stall: float) -> None:
    store, lease = await a_lease()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)

    async with lease.hold():
        for _ in range(60):
            await asyncio.sleep(0.01)
            # Nothing of this process runs meanwhile, the renewal neither.
            loop.jump(stall)
            assert store.voice(lease).lease_remaining(loop_now()) > timedelta(0)


def test_a_lease_grows_with_delay_and_work_up_to_a_limit() -> None:
    assert lease_length(0.0) == LEASE
    assert lease_length(0.5) == LEASE
    assert lease_length(2.0) == timedelta(seconds=9)
    assert lease_length(0.0, 40.0) == LEASE + timedelta(seconds=10)
    assert lease_length(30.0) == lease_length(0.0, 600.0) == LONGEST_LEASE


@in_virtual_time
async def test_a_stage_that_could_not_be_written_is_written_when_it_can_be() -> None:
    store, lease = await a_lease()
    store.unavailable = 2

    async with lease.hold():
        lease.enter_stage("storing")
        await asyncio.sleep(3.5)
        assert (await stored(store, lease)).stage == "storing"


@in_virtual_time
async def test_an_outer_cancellation_is_not_mistaken_for_a_lost_lease() -> None:
    lease = await leased(Store())

    async def work() -> None:
        async with lease.hold():
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await asyncio.sleep(0.5)
    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working


@in_virtual_time
async def test_an_error_of_the_work_passes_and_the_renewal_ends() -> None:
    store, lease = await a_lease()

    with pytest.raises(ValueError, match="x"):
        async with lease.hold():
            raise ValueError("x")
    await asyncio.sleep(60)

    assert store.writes == []


@in_virtual_time
async def test_after_its_commit_a_lease_is_neither_renewed_nor_lost() -> None:
    store, lease = await a_lease()
    result = a_result(lease.voice.voice_id)

    async with lease.hold():
        await lease.finish(result, 2.5, {})
        await asyncio.sleep(10 * LEASE.total_seconds())

    assert (await stored(store, lease)).result == result
    assert len(store.writes) == 1


@in_virtual_time
async def test_a_worker_that_lost_its_lease_cannot_finish_or_fail_the_voice() -> None:
    store, lease = await a_lease()
    await take_over(store, lease)
    before = await stored(store, lease)

    with pytest.raises(LeaseLostError):
        await lease.finish(a_result(lease.voice.voice_id), 2.5, {})
    with pytest.raises(LeaseLostError):
        await lease.fail(ERROR)
    await lease.release(counts=True)

    assert await stored(store, lease) == before


@in_virtual_time
async def test_another_attempts_commit_is_not_taken_for_its_own() -> None:
    store, lease = await a_lease()
    await take_over(store, lease)
    voice_id = lease.voice.voice_id
    theirs = a_result(voice_id, attempt=2)
    commit = partial(voices_of.finish, attempt=2, result=theirs, seconds=2.5, timings={})
    await change(store, voice_id, commit)

    with pytest.raises(LeaseLostError):
        await lease.finish(a_result(voice_id), 2.5, {})

    assert (await stored(store, lease)).result == theirs


@in_virtual_time
async def test_a_commit_counts_although_its_answer_was_lost() -> None:
    store, lease = await a_lease()
    store.lost_answers = 1

    await lease.finish(a_result(lease.voice.voice_id), 2.5, {})

    assert (await stored(store, lease)).status is Status.DONE


@pytest.mark.parametrize("counts", [True, False])
@in_virtual_time
async def test_a_released_voice_is_free_at_once(*, counts: bool) -> None:
    store, lease = await a_lease()
    await asyncio.sleep(2)

    await lease.release(counts=counts)

    assert (await stored(store, lease)).counted_attempts == int(counts)
    taken = await take_lease(store, lease.voice.voice_id, an_upload(lease.voice.voice_id))
    assert (taken.attempt, loop_seconds()) == (2, 2.0)


@pytest.mark.parametrize("error", [StoreUnavailableError("down"), RuntimeError("surprise")])
@in_virtual_time
async def test_a_lease_that_cannot_be_handed_back_ends_by_itself(
    error: Exception, book: LogBook
) -> None:
    store, lease = await a_lease()
    store.unavailable, store.error = 1, error

    await lease.release(counts=True)

    assert len(book.of("lease_not_released")) == 1
