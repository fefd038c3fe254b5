"""Owning a voice while it is converted: taking it, keeping it, giving it up.

All times are the store's. The lease is renewed by compare-and-set on the state this worker wrote
last, so a takeover, a deletion and a dead letter are all noticed as the same thing: a conflict.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from secrets import randbelow
from typing import TYPE_CHECKING, Final

from shared.ports.store import ConflictError, UnknownVoiceError, change
from shared.voice import (
    LEASE,
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

    from shared.ports.store import Snapshot, VoiceStore
    from shared.voice import Input, Result, Voice, VoiceError

_LOG = logging.getLogger(__name__)

RENEWAL_SECONDS: Final = LEASE.total_seconds() / 4
"""How often a lease is renewed.

What failed is tried again a second later: after a renewal for which the store took all the time of
a call (half a lease) there is time for another one.
"""

LEAST_SECONDS_BETWEEN_WRITES: Final = 1.0
"""Firestore's guideline for one document."""

_SAFETY: Final = timedelta(milliseconds=50)

_LENGTHS: Final = 500_000
"""How many lengths a new lease can have, each a microsecond longer."""


async def take_lease(
    voices: VoiceStore,
    voice_id: str,
    upload: Input,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Lease:
    """Take a voice over as its next attempt.

    While another attempt's lease lives, wait for its end once: a dead worker's voice is taken over
    at that moment, not at the next delivery.

    Raises:
        LeaseHeldError: the other worker renewed its lease, so it lives.
        ForbiddenTransitionError: the voice is done or failed.
        UnknownVoiceError: the voice was deleted.
        UnreadableVoiceError: its document is no voice.
        ConflictError: others changed the voice again and again.
        StoreUnavailableError: the store did not answer.
    """
    # Of its own length, to be known again if the store's answer is lost: another worker may have
    # read the voice at the very same moment.
    length = LEASE + timedelta(microseconds=randbelow(_LENGTHS))

    def transition(voice: Voice, now: datetime) -> Voice:
        return lease(voice, upload, now=now, length=length)

    try:
        snapshot = await change(voices, voice_id, transition)
    except LeaseHeldError as held:
        await sleep((held.remaining + _SAFETY).total_seconds())
        snapshot = await change(voices, voice_id, transition)
    return Lease(voices, snapshot)


class Lease:
    """One attempt's ownership of a voice.

    Args:
        voices: the voices' documents.
        snapshot: the voice as this attempt took it.
        monotonic: seconds of a clock that never goes back; the event loop's if None.
    """

    def __init__(
        self,
        voices: VoiceStore,
        snapshot: Snapshot,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._voices = voices
        self._snapshot = snapshot
        self._monotonic = monotonic or asyncio.get_running_loop().time
        self._read_at = self._monotonic()
        self._one_write = asyncio.Lock()
        self._stage = snapshot.voice.stage or ""
        self._stage_changed = asyncio.Event()

    @property
    def voice(self) -> Voice:
        """The voice as this attempt last wrote it."""
        return self._snapshot.voice

    @property
    def attempt(self) -> int:
        """The number of this attempt."""
        return self._snapshot.voice.attempt

    def enter_stage(self, stage: str) -> None:
        """Say what the attempt is doing; it is written soon, quick successions are left out."""
        self._stage = stage
        self._stage_changed.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease while the work inside goes on; cancel the work if the lease is lost.

        Raises:
            LeaseLostError: the voice went to another attempt, or is gone.
        """
        work = asyncio.current_task()
        lost: list[LeaseLostError] = []

        async def keep() -> None:
            try:
                await self._renew_for_ever()
            except LeaseLostError as error:
                lost.append(error)
                if work is not None:
                    work.cancel()

        keeper = asyncio.create_task(keep())
        try:
            yield
        except asyncio.CancelledError:
            if lost and work is not None and work.uncancel() == 0:
                raise lost[0] from None
            raise
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper

    async def finish(self, result: Result, seconds: float, timings: Mapping[str, float]) -> None:
        """Commit the result.

        Raises:
            LeaseLostError: the attempt is no longer the voice's; nothing was committed.
            ConflictError, StoreUnavailableError: nobody knows whether it was committed.
        """

        def transition(voice: Voice, now: datetime) -> Voice:
            if voice.status is Status.DONE and voice.result == result:
                return voice  # the answer to our own commit was lost
            return finish(voice, self.attempt, result, now=now, seconds=seconds, timings=timings)

        await self._write(transition)

    async def fail(self, error: VoiceError) -> None:
        """Commit that the voice failed for good; raises like `finish`."""

        def transition(voice: Voice, now: datetime) -> Voice:
            if voice.status is Status.FAILED and voice.attempt == self.attempt:
                return voice
            return fail_attempt(voice, self.attempt, error, now=now)

        await self._write(transition)

    async def release(self) -> None:
        """Hand the voice back, so that the next delivery need not wait for the lease's end.

        Raises nothing: it is called because of another error, and the lease ends by itself as well.
        """
        try:
            await self._write(lambda voice, now: release(voice, self.attempt, now=now))
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("lease not handed back: %s", error, extra={"event": "lease_not_released"})

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LEAST_SECONDS_BETWEEN_WRITES)
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEWAL_SECONDS - LEAST_SECONDS_BETWEEN_WRITES):
                    await self._stage_changed.wait()
            self._stage_changed.clear()
            try:
                await self._renew()
            except LeaseLostError:
                raise
            except Exception as error:  # noqa: BLE001 - without renewals the lease would be lost
                # The work goes on: whether it may be committed is decided at its end.
                _LOG.warning("lease not renewed: %s", error, extra={"event": "lease_not_renewed"})
                # So that it is tried again as soon as may be written.
                self._stage_changed.set()

    async def _renew(self) -> None:
        async with self._one_write:
            # After our own commit there is nothing left to renew, and nothing was lost.
            if not self.voice.status.is_final:
                await self._write_locked(
                    lambda voice, now: renew(voice, self.attempt, now=now, stage=self._stage)
                )

    async def _write(self, transition: Callable[[Voice, datetime], Voice]) -> None:
        async with self._one_write:
            await self._write_locked(transition)

    async def _write_locked(self, transition: Callable[[Voice, datetime], Voice]) -> None:
        try:
            wanted = transition(self._snapshot.voice, self._now())
            snapshot = await self._voices.replace(self._snapshot, wanted)
        except ConflictError:
            snapshot = await self._write_again(transition)
        self._snapshot, self._read_at = snapshot, self._monotonic()

    async def _write_again(self, transition: Callable[[Voice, datetime], Voice]) -> Snapshot:
        try:
            return await change(self._voices, self.voice.voice_id, transition)
        except UnknownVoiceError as error:
            raise LeaseLostError(f"voice {self.voice.voice_id} was deleted") from error

    def _now(self) -> datetime:
        elapsed = self._monotonic() - self._read_at
        return self._snapshot.read_at + timedelta(seconds=elapsed)
