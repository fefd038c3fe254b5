"""One sweep: find the voices that nobody moves any more, and do something about each."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from functions.sweep.decision import Remedy, decide
from shared.errors import PublishError
from shared.logs import about_voice
from shared.messages import ConversionMessage
from shared.objects import ObjectMissingError, StorageUnavailableError, upload_name
from shared.ports.store import ConflictError, StoreUnavailableError, UnknownVoiceError, change
from shared.voice import (
    ForbiddenTransitionError,
    Input,
    LeaseHeldError,
    Status,
    expire,
    queue_again,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from datetime import datetime

    from functions.sweep.decision import Patience
    from shared.google.cloud_storage import Bucket
    from shared.ports.store import Found, Snapshot, VoiceStore
    from shared.ports.topic import Publisher
    from shared.voice import Voice

_LOG = logging.getLogger(__name__)

PAGE: Final = 500
"""How many voices are asked for at once."""

PAGES: Final = 6
"""How many pages of a status one sweep looks at: what it has the time for, with the two others."""

AT_ONCE: Final = 16

_UNFINISHED: Final = (Status.WAITING, Status.QUEUED, Status.CONVERTING)
_PASSING: Final = (ConflictError, PublishError, StorageUnavailableError, StoreUnavailableError)
_OVERTAKEN: Final = (ForbiddenTransitionError, LeaseHeldError, UnknownVoiceError)


class IncompleteSweepError(Exception):
    """Some voices could not be looked after; the next sweep tries again."""


class Sweeper:
    """Looks after the voices that nobody moves any more.

    Args:
        voices: the voices' documents.
        uploads: the bucket of the recordings.
        conversions: the topic of the conversion messages.
        patience: how long is waited before something counts as lost.
        now: the clock that old documents are searched by; each decision uses the store's.
    """

    def __init__(
        self,
        *,
        voices: VoiceStore,
        uploads: Bucket,
        conversions: Publisher,
        patience: Patience,
        now: Callable[[], datetime],
    ) -> None:
        self._voices = voices
        self._uploads = uploads
        self._conversions = conversions
        self._patience = patience
        self._now = now

    async def sweep(self) -> Mapping[str, int]:
        """Look after every voice once; return how many were put back and how many expired.

        A document that is no voice is named in the log and left to its end (TTL): nothing that a
        later sweep does could help it.

        Raises:
            IncompleteSweepError: some could not be looked after; all others were.
            StoreUnavailableError: none could be found.
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
        since = self._now() - self._patience.unchanged
        snapshots: list[Snapshot] = []
        unreadable = 0
        for status in _UNFINISHED:
            async for found in self._pages(status, since):
                snapshots += found.snapshots
                unreadable += len(found.unreadable)
                for error in found.unreadable:
                    with about_voice(error.voice_id):
                        _LOG.error("left alone: %s", error, extra={"event": "unreadable_voice"})
        return snapshots, unreadable

    async def _pages(self, status: Status, since: datetime) -> AsyncIterator[Found]:
        """Yield what is found, oldest first, as far as one sweep goes."""
        end: object = None
        for _ in range(PAGES):
            found = await self._voices.unchanged(status, since=since, limit=PAGE, after=end)
            yield found
            end = found.end
            if end is None:
                return
        extra = {"event": "sweep_cut", "status": status.value}
        _LOG.warning("more than %d %s voices do not move", PAGE * PAGES, status, extra=extra)

    async def _look_after(self, snapshot: Snapshot, turn: asyncio.Semaphore) -> Remedy | None:
        """Do what must be done about one voice; None if that failed and can succeed later."""
        async with turn:
            with about_voice(snapshot.voice.voice_id):
                try:
                    return await self._treat(snapshot)
                except _OVERTAKEN as reason:
                    _LOG.info("left alone: %s", reason, extra={"event": "overtaken"})
                    return Remedy.NONE
                except _PASSING as error:
                    extra = {"event": "not_swept"}
                    _LOG.warning("not looked after: %s", error, extra=extra)
                    return None
                except Exception:  # noqa: BLE001 - one voice must not keep the others waiting
                    _LOG.exception("not looked after", extra={"event": "not_swept"})
                    return None

    async def _treat(self, snapshot: Snapshot) -> Remedy:
        voice = snapshot.voice
        upload = await self._find_upload(voice)
        remedy = decide(voice, upload, now=snapshot.read_at, patience=self._patience)
        if remedy is Remedy.EXPIRE:
            await self._expire(voice)
        elif remedy is Remedy.PUT_BACK and upload is not None:
            await self._put_back(voice, upload)
        return remedy

    async def _find_upload(self, voice: Voice) -> Input | None:
        if voice.status is not Status.WAITING:
            return voice.input
        try:
            facts = await self._uploads.find(upload_name(voice.voice_id))
        except ObjectMissingError:
            return None
        return Input(facts.bucket, facts.name, facts.generation, facts.content_type, facts.bytes)

    async def _put_back(self, voice: Voice, upload: Input) -> None:
        # Publish first, as on_upload does: a crash in between repeats the message.
        message = ConversionMessage(voice.voice_id, upload)
        await self._conversions.publish(message.encode(), {"voice_id": voice.voice_id})

        def transition(current: Voice, now: datetime) -> Voice:
            return queue_again(current, upload, now=now)

        await change(self._voices, voice.voice_id, transition)
        extra = {"event": "voice_put_back", "status": voice.status.value}
        _LOG.warning("put back a voice that was %s", voice.status, extra=extra)

    async def _expire(self, voice: Voice) -> None:
        def transition(current: Voice, now: datetime) -> Voice:
            return expire(current, now=now)

        await change(self._voices, voice.voice_id, transition)
        _LOG.info("expired", extra={"event": "voice_expired"})
