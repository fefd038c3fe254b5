"""The sweep, which puts voices back or ends them if they have not changed for long."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.pipeline import request_conversion
from shared.runtime.logs import about_voice
from shared.voices.messages import ConversionMessage
from shared.voices.objects import ObjectMissingError, upload_name
from shared.voices.store import UnknownVoiceError, change
from shared.voices.voice import (
    ForbiddenTransitionError,
    LeaseHeldError,
    PassingError,
    Status,
    expire,
    queue_again,
    upload_has_expired,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime

    from shared.characters.own.recordings import OwnCharacterCleaner
    from shared.characters.own.store import OwnCharacterStore
    from shared.ports import Bucket, Publisher
    from shared.voices.store import FoundVoices, Snapshot, VoiceStore
    from shared.voices.voice import Input, Voice


class Remedy(StrEnum):
    NONE = "none"
    PUT_BACK = "put_back"
    EXPIRE = "expire"


@dataclass(frozen=True, slots=True)
class Patience:
    unchanged: timedelta
    upload: timedelta


def decide(voice: Voice, upload: Input | None, *, now: datetime, patience: Patience) -> Remedy:
    """Decide about a voice by its recording: None if there is none in the bucket."""
    if voice.status.is_final:
        return Remedy.NONE
    # A voice that a worker owns counts as unchanged from the end of its lease on.
    quiet_for = now - max(voice.updated_at, voice.lease_expires_at or voice.updated_at)
    if quiet_for < patience.unchanged:
        return Remedy.NONE
    if voice.status is not Status.WAITING or upload is not None:
        return Remedy.PUT_BACK
    return Remedy.EXPIRE if upload_has_expired(voice, now, patience.upload) else Remedy.NONE


_LOG = logging.getLogger(__name__)

PAGE: Final = 500  # voices that one query reads
PAGES: Final = 6  # of each status that one sweep reads; there is no time for more
AT_ONCE: Final = 16  # voices handled at the same time

_OVERTAKEN: Final = (ForbiddenTransitionError, LeaseHeldError, UnknownVoiceError)


class IncompleteSweepError(PassingError):
    """Some voices could not be handled; the next sweep tries again."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    voices: VoiceStore
    uploads: Bucket
    conversions: Publisher
    patience: Patience
    now: Callable[[], datetime]

    async def sweep(self) -> Mapping[str, int]:
        """Handle every unchanged voice once; return how many were put back and how many expired.

        A document that cannot be read as a voice is left alone until the TTL policy deletes it.
        """
        found, unreadable = await self._find()
        turn = asyncio.Semaphore(AT_ONCE)
        remedies = await asyncio.gather(*(self._look_after(s, turn) for s in found))
        counts = Counter(remedy for remedy in remedies if remedy is not None)
        done = {kind.value: counts[kind] for kind in (Remedy.PUT_BACK, Remedy.EXPIRE)}
        failures = remedies.count(None)
        extra = {"event": "swept", "looked_at": len(found), "failures": failures, **done}
        _LOG.info("swept", extra=extra | {"unreadable": unreadable})
        if failures:
            raise IncompleteSweepError(f"{failures} of {len(found)} voices were not looked after")
        return done

    async def _find(self) -> tuple[list[Snapshot], int]:
        """Return the voices that have not changed for long, and how many cannot be read."""
        since = self.now() - self.patience.unchanged
        snapshots: list[Snapshot] = []
        unreadable = 0
        for status in (Status.WAITING, Status.QUEUED, Status.CONVERTING):
            async for found in self._pages(status, since):
                snapshots += found.snapshots
                unreadable += len(found.unreadable)
                for error in found.unreadable:
                    with about_voice(error.voice_id):
                        _LOG.error("left alone: %s", error, extra={"event": "unreadable_voice"})
        return snapshots, unreadable

    async def _pages(self, status: Status, since: datetime) -> AsyncIterator[FoundVoices]:
        """Yield the pages of one search, oldest voices first, at most `PAGES`."""
        end: object = None
        for _ in range(PAGES):
            found = await self.voices.find_unchanged(status, since=since, limit=PAGE, after=end)
            yield found
            end = found.end
            if end is None:
                return
        extra = {"event": "sweep_cut", "status": status.value}
        _LOG.warning("more than %d %s voices are unchanged", PAGE * PAGES, status, extra=extra)

    async def _look_after(self, snapshot: Snapshot, turn: asyncio.Semaphore) -> Remedy | None:
        """Handle one voice; return None if that failed and the next sweep must try again."""
        async with turn:
            with about_voice(snapshot.voice.voice_id):
                try:
                    return await self._apply_remedy(snapshot)
                except _OVERTAKEN as reason:
                    _LOG.info("left alone: %s", reason, extra={"event": "overtaken"})
                    return Remedy.NONE
                except PassingError as error:
                    extra = {"event": "not_swept"}
                    _LOG.warning("not looked after: %s", error, extra=extra)
                    return None
                except Exception:  # noqa: BLE001 - an error of one voice must not stop the others
                    _LOG.exception("not looked after", extra={"event": "not_swept"})
                    return None

    async def _apply_remedy(self, snapshot: Snapshot) -> Remedy:
        voice = snapshot.voice
        upload = voice.input
        if voice.status is Status.WAITING:
            with suppress(ObjectMissingError):
                upload = (await self.uploads.find(upload_name(voice.voice_id))).as_input()
        remedy = decide(voice, upload, now=snapshot.read_at, patience=self.patience)
        if remedy is Remedy.EXPIRE:
            await change(self.voices, voice.voice_id, expire)
            _LOG.info("expired", extra={"event": "voice_expired"})
        elif remedy is Remedy.PUT_BACK and upload is not None:
            message = ConversionMessage(voice.voice_id, upload, voice.client)
            record = partial(queue_again, upload=upload)
            await request_conversion(self.conversions, self.voices, message, record)
            extra = {"event": "voice_put_back", "status": voice.status.value}
            _LOG.warning("put back a voice that was %s", voice.status, extra=extra)
        return remedy


# The time after which a character should have been trained whatever the queue.
LONG: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class OwnCharacterSweep:
    store: OwnCharacterStore
    cleaner: OwnCharacterCleaner
    start_trainer: Callable[[], Awaitable[None]]

    async def sweep(self) -> None:
        """Start the trainer if a character waits, and clean up even if that fails."""
        try:
            for oldest in await self.store.find_waiting(limit=1):
                await self.start_trainer()
                wait = oldest.read_at - oldest.character.updated_at
                extra = {"event": "trainer_started", "seconds": round(wait.total_seconds())}
                _LOG.info("trainer started: a character waits", extra=extra)
                if wait > LONG:
                    extra |= {"event": "trainings_wait"}
                    _LOG.error("a character waits for long", extra=extra)
        finally:
            await self.cleaner.clean()
