"""Handles finished uploads: requests their conversion, and records that."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.pipeline import LIVE, request_conversion
from shared.ports import NO_TRACES
from shared.runtime.logs import about_voice
from shared.voices.messages import FINALIZE, ConversionMessage, parse_upload_event
from shared.voices.objects import voice_of_upload
from shared.voices.store import UnknownVoiceError
from shared.voices.voice import (
    ForbiddenTransitionError,
    LeaseHeldError,
    PassingError,
    Status,
    queue_again,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.ports import Bucket, Publisher, Traces
    from shared.voices.messages import PushMessage, UploadEvent
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Input, Voice

_LOG = logging.getLogger(__name__)

PATIENT_AFTER: Final = timedelta(seconds=2)
"""How old an event is before it waits for the end of a lease."""

LEASING: Final = timedelta(seconds=2)
"""How long `live` may take from storing a recording to leasing its voice; then it has died."""


class NotLeasedYetError(PassingError):
    """`live` has stored the recording and is about to lease its voice."""


class UploadHandler:
    """Turns the notification of a finished upload into a conversion message.

    Args:
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        voices: VoiceStore,
        conversions: Publisher,
        uploads: Callable[[], Bucket],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._traces = traces
        self._sleep = sleep
        self._voices = voices
        self._conversions = conversions
        self._uploads = uploads

    async def handle(self, message: PushMessage) -> None:
        """Handle one notification; it may come several times, and in any order.

        Raises:
            MalformedMessageError: the message is no notification of Cloud Storage.
            NotLeasedYetError: `live` will own the voice in a moment.
            LeaseHeldError: a worker owns the voice; the event must come again until the voice is
                final, because it may be the only message about it.
            PassingError: Pub/Sub, Firestore or Cloud Storage did not answer.
        """
        event = parse_upload_event(message)
        # What is empty was emptied by us: no recording is.
        if event.event_type != FINALIZE or not event.upload.bytes:
            return
        voice_id = voice_of_upload(event.name)
        if voice_id is None:
            extra = {"event": "stray_upload", "object": event.name[:200]}
            _LOG.warning("an upload that belongs to no voice", extra=extra)
            return
        self._traces.add(voice_id, "notification of the upload", event.happened_at)
        with about_voice(voice_id), self._traces.step(voice_id, "upload received"):
            await self._handle_upload(voice_id, event)

    async def _handle_upload(self, voice_id: str, event: UploadEvent) -> None:
        try:
            snapshot = await self._read(voice_id, event)
        except UnknownVoiceError:
            # The document is created before the upload address, so the voice was deleted meanwhile.
            await self._erase(event.upload)
            return
        if snapshot.voice.status is Status.WAITING and _is_just_stored_by_live(
            event, snapshot.read_at
        ):
            # A conversion that began now would only take the voice away from `live`.
            raise NotLeasedYetError(f"voice {voice_id} is being converted by live")
        if snapshot.voice.status.is_final:
            await self._erase(event.upload)
        # The api itself requests the conversion of a text, and the sweep if the api could not.
        if _is_settled(snapshot.voice, event.upload) or snapshot.voice.is_text:
            _log_duplicate(snapshot.voice, event.upload)
            return
        await self._queue(snapshot, event)

    async def _read(self, voice_id: str, event: UploadEvent) -> Snapshot:
        """Read a voice; if it has been leased for long, wait for the lease's end first.

        Most conversions by `live` are over when the event comes again. The others must not use up
        its deliveries, after which it would be a dead letter.
        """
        snapshot = await self._voices.read(voice_id)
        remaining = snapshot.voice.lease_remaining(snapshot.read_at)
        age = _age(event, snapshot.read_at)
        if not remaining or age is None or age < PATIENT_AFTER:
            return snapshot
        await self._sleep(remaining.total_seconds())
        return await self._voices.read(voice_id)

    async def _queue(self, snapshot: Snapshot, event: UploadEvent) -> None:
        upload = event.upload
        # A voice that a worker owns is left to it: then this raises, and nothing is published.
        queue_again(snapshot.voice, snapshot.read_at, upload)
        try:
            await request_conversion(
                self._conversions,
                self._voices,
                ConversionMessage(snapshot.voice.voice_id, upload, snapshot.voice.client),
                partial(queue_again, upload=upload),
                attributes={"uploaded_at": event.happened_at},
                # The conversion that begins now writes the document, too: another read would only
                # make a conflict between the two more likely.
                known=snapshot,
            )
        except (ForbiddenTransitionError, LeaseHeldError, UnknownVoiceError) as error:
            # The conversion began before this record, or the visitor deleted the voice.
            _LOG.info("not recorded as queued: %s", error, extra={"event": "overtaken"})
            return
        extra = {
            "event": "upload_received",
            "bytes": upload.bytes,
            "content_type": upload.content_type,
            "generation": upload.generation,
        }
        _LOG.info("upload received", extra=extra)

    async def _erase(self, upload: Input) -> None:
        await self._uploads().empty(upload.object, upload.generation)
        _LOG.info("erased the upload of a voice that is over", extra={"event": "upload_erased"})


def _is_just_stored_by_live(event: UploadEvent, now: datetime) -> bool:
    age = _age(event, now)
    return age is not None and age < LEASING and event.metadata.items() >= LIVE.items()


def _age(event: UploadEvent, now: datetime) -> timedelta | None:
    """Compute the age of an event, if it says when it happened."""
    try:
        return now - datetime.fromisoformat(event.happened_at)
    except (TypeError, ValueError):
        return None


def _is_settled(voice: Voice, upload: Input) -> bool:
    """Return whether nothing has to be done about an upload: another message sees to its voice.

    `live` leases a voice without any message. If it dies, only this event tells of the recording.
    """
    if voice.status is Status.CONVERTING:
        return voice.input is None or not voice.input.is_same_upload(upload)
    return voice.status is not Status.WAITING


def _log_duplicate(voice: Voice, upload: Input) -> None:
    same = voice.input is not None and voice.input.is_same_upload(upload)
    reason = "same upload" if same else f"voice is {voice.status}"
    reason = "voice is made from a text" if voice.is_text else reason
    _LOG.info("event ignored: %s", reason, extra={"event": "duplicate", "reason": reason})
