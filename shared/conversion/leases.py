"""The lease of a voice while it is converted: take it, renew it, hand it back.

All times are the store's. The lease is renewed by compare-and-set on the state that this worker
wrote last, so a takeover, a deletion and a dead letter all show as the same error: a conflict.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from secrets import randbelow
from typing import TYPE_CHECKING, Final

from shared.voices.store import ConflictError, UnknownVoiceError, change
from shared.voices.voice import (
    LEASE,
    LONGEST_LEASE,
    LeaseHeldError,
    LeaseLostError,
    Status,
    fail_attempt,
    finish,
    lease,
    release,
    renew,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime

    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Input, Result, Voice, VoiceError

_LOG = logging.getLogger(__name__)

RENEWALS: Final = 4  # renewals in the length of a lease
LEAST_SECONDS_BETWEEN_WRITES: Final = 1.0  # Firestore's guideline for one document

# The growth of a lease with the time of its work: a long conversion survives a long pause of the
# store, and a visitor whose worker died waits little compared with the work.
SHARE_OF_WORK: Final = 0.25

# A lease outlasts one pause between writes and so many of the longest delays: three until the store
# has written the first renewal, and one for delays that grow.
DELAYS: Final = 4

_SAFETY: Final = timedelta(milliseconds=50)

_LENGTHS: Final = 100_000  # different lengths that a new lease can have, a microsecond apart


async def take_lease(
    voices: VoiceStore,
    voice_id: str,
    upload: Input,
    sleep: Callable[[float], Awaitable[None]] | None = asyncio.sleep,
    known: Snapshot | None = None,
) -> Lease:
    """Lease a voice as its next attempt.

    If another attempt's lease has not ended, wait for its end once, so that the voice of a dead
    worker is taken over at that moment and not only at the next delivery.

    Args:
        sleep: None not to wait for the end of another attempt's lease.

    Raises:
        LeaseHeldError: the other worker has renewed its lease, so it is alive.
        AttemptsExhaustedError: as many attempts at the voice have failed as may.
        ForbiddenTransitionError: the voice is done or failed.
        UnknownVoiceError: the voice was deleted.
    """
    try:
        return await _take(voices, voice_id, upload, known)
    except LeaseHeldError as held:
        if sleep is None:
            raise
        await sleep((held.remaining + _SAFETY).total_seconds())
    return await _take(voices, voice_id, upload)


async def _take(
    voices: VoiceStore, voice_id: str, upload: Input, known: Snapshot | None = None
) -> Lease:
    clock = asyncio.get_running_loop().time
    begin = clock()
    # A random length makes the lease recognisable if the store's answer is lost: another worker may
    # have read the voice at the same moment and written the same otherwise.
    extra = timedelta(microseconds=randbelow(_LENGTHS))

    def transition(voice: Voice, now: datetime) -> Voice:
        # The voice was just read: writing it will take about as long.
        return lease(voice, now, upload, lease_length(clock() - begin) + extra)

    snapshot = await change(voices, voice_id, transition, known)
    return Lease(voices, snapshot, delay=clock() - begin)


def lease_length(delay: float, worked: float = 0.0) -> timedelta:
    """Return the length of a lease after so many seconds of delay in its renewals and of work."""
    least = max(LEASE.total_seconds(), LEAST_SECONDS_BETWEEN_WRITES + DELAYS * delay)
    return min(timedelta(seconds=least + SHARE_OF_WORK * worked), LONGEST_LEASE)


class Lease:
    """One attempt's ownership of a voice, which it took `delay` seconds to get."""

    def __init__(self, voices: VoiceStore, snapshot: Snapshot, delay: float) -> None:
        self._voices = voices
        self._snapshot = snapshot
        self._monotonic = asyncio.get_running_loop().time
        self._taken_at = self._read_at = self._monotonic()
        self._delay = delay
        self._one_write = asyncio.Lock()
        self.stage = snapshot.voice.stage
        self._stage_changed = asyncio.Event()

    @property
    def voice(self) -> Voice:
        """The voice as this attempt last wrote it."""
        return self._snapshot.voice

    @property
    def attempt(self) -> int:
        return self._snapshot.voice.attempt

    def enter_stage(self, stage: str) -> None:
        """Begin a stage; the next renewal, which comes soon, writes it."""
        self.stage = stage
        self._stage_changed.set()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Renew the lease during the work inside; if it is lost, end that with LeaseLostError."""
        work = asyncio.current_task()
        lost: list[LeaseLostError] = []

        async def renew_until_lost() -> None:
            try:
                await self._renew_for_ever()
            except LeaseLostError as error:
                lost.append(error)
                if work is not None:
                    work.cancel()

        renewals = asyncio.create_task(renew_until_lost())
        try:
            yield
        except asyncio.CancelledError:
            if lost and work is not None and work.uncancel() == 0:
                raise lost[0] from None
            raise
        finally:
            renewals.cancel()
            with suppress(asyncio.CancelledError):
                await renewals

    async def finish(
        self,
        result: Result,
        seconds: float | None,
        timings: Mapping[str, float],
        missing_seconds: float | None = None,
    ) -> None:
        """Commit the result.

        Raises:
            LeaseLostError: this attempt no longer owns the voice; nothing was committed.
            ConflictError, StoreUnavailableError: it is unknown whether the result was committed.
        """
        attempt = self.attempt

        def finish_once(voice: Voice, now: datetime) -> Voice:
            if voice.status is Status.DONE and voice.result == result:
                return voice  # the answer to our own write was lost
            return finish(
                voice,
                now,
                attempt,
                result,
                seconds=seconds,
                timings=timings,
                missing_seconds=missing_seconds,
            )

        await self._write(finish_once)

    async def fail(self, error: VoiceError) -> None:
        """Commit that the voice failed permanently; raises like `finish`."""
        attempt = self.attempt

        def fail_once(voice: Voice, now: datetime) -> Voice:
            if voice.status is Status.FAILED and voice.attempt == attempt:
                return voice  # the answer to our own write was lost
            return fail_attempt(voice, now, attempt, error)

        await self._write(fail_once)

    async def release(self, *, counts: bool) -> bool:
        """Hand the voice back, so that the next delivery need not wait for the lease's end.

        It raises nothing, because it is called after another error, and the lease ends anyway.

        Returns:
            False if this attempt owned the voice no longer.
        """
        try:
            await self._write(partial(release, attempt=self.attempt, counts=counts))
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("lease not handed back: %s", error, extra={"event": "lease_not_released"})
            return not isinstance(error, LeaseLostError)
        return True

    async def _renew_for_ever(self) -> None:
        while True:
            due = self._monotonic() + self._remaining_seconds() / RENEWALS
            begin = self._monotonic()
            await asyncio.sleep(LEAST_SECONDS_BETWEEN_WRITES)
            self._delay = max(self._delay, self._monotonic() - begin - LEAST_SECONDS_BETWEEN_WRITES)
            # A process that gets little time may be late already.
            if (pause := due - self._monotonic()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stage_changed.wait()
            self._stage_changed.clear()
            try:
                await self._renew()
            except LeaseLostError:
                raise
            except Exception as error:  # noqa: BLE001 - without further renewals the lease would be lost
                # The work goes on; its end decides whether its result may be committed.
                _LOG.warning("lease not renewed: %s", error, extra={"event": "lease_not_renewed"})
                # Try again as soon as another write is allowed.
                self._stage_changed.set()

    async def _renew(self) -> None:
        """Renew the lease; give a call up that hangs, while there is time for another one."""
        begin = self._monotonic()
        most = max(self._remaining_seconds() / 2, DELAYS * self._delay)
        try:
            async with asyncio.timeout(most), self._one_write:
                # After our own commit there is nothing left to renew, and the lease was not lost.
                if not self.voice.status.is_final:
                    length = lease_length(self._delay, self._monotonic() - self._taken_at)
                    renewal = partial(renew, attempt=self.attempt, stage=self.stage, length=length)
                    await self._write_locked(renewal)
        finally:
            self._delay = max(self._delay, self._monotonic() - begin)

    def _remaining_seconds(self) -> float:
        """Return how long the lease lasts; a renewal that comes late still gets some time."""
        remaining = self.voice.lease_remaining(self._now()).total_seconds()
        return max(remaining, LEASE.total_seconds())

    async def _write(self, transition: Callable[[Voice, datetime], Voice]) -> None:
        async with self._one_write:
            await self._write_locked(transition)

    async def _write_locked(self, transition: Callable[[Voice, datetime], Voice]) -> None:
        try:
            wanted = transition(self._snapshot.voice, self._now())
            snapshot = await self._voices.replace(self._snapshot, wanted)
        except ConflictError:
            try:
                snapshot = await change(self._voices, self.voice.voice_id, transition)
            except UnknownVoiceError as error:
                raise LeaseLostError(f"voice {self.voice.voice_id} was deleted") from error
        self._snapshot, self._read_at = snapshot, self._monotonic()

    def _now(self) -> datetime:
        elapsed = self._monotonic() - self._read_at
        return self._snapshot.read_at + timedelta(seconds=elapsed)
