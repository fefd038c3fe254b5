"""Handles finished uploads: requests their conversion and records the request."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.pipeline import LIVE, request_conversion
from shared.ports import NO_TRACES
from shared.runtime.logs import about_voice
from shared.voices.media import EMPTY_CONTENT_TYPE
from shared.voices.messages import FINALIZE, ConversionMessage, parse_upload_event
from shared.voices.objects import voice_of_upload
from shared.voices.store import UnknownVoiceError, change
from shared.voices.voice import (
    ErrorCode,
    ForbiddenTransitionError,
    LeaseHeldError,
    Status,
    VoiceError,
    queue_again,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.ports import Bucket, Publisher, Traces
    from shared.voices.messages import PushMessage, UploadEvent
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Input, Voice

_LOG = logging.getLogger(__name__)

# The time from storing a recording to leasing its voice, after which `live` has died.
LEASING: Final = timedelta(seconds=2)
FIRST_PAUSE: Final = 0.25  # seconds until a voice is read again, doubled each time
LONGEST_PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class UploadHandler:
    voices: VoiceStore
    conversions: Publisher
    uploads: Callable[[], Bucket]
    patience: float  # seconds for which an event waits while somebody converts its voice
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    traces: Traces = NO_TRACES

    async def handle(self, message: PushMessage) -> None:
        """Handle one notification, which may come several times, and in any order.

        `LeaseHeldError` if a worker still owns the voice: the event must come again until the voice
        is final, because it may be the only message about it.
        """
        event = parse_upload_event(message)
        is_emptied = not event.upload.bytes and event.upload.content_type == EMPTY_CONTENT_TYPE
        if event.event_type != FINALIZE or is_emptied:
            return
        voice_id = voice_of_upload(event.name)
        if voice_id is None:
            extra = {"event": "stray_upload", "object": event.name[:200]}
            _LOG.warning("an upload that belongs to no voice", extra=extra)
            return
        self.traces.add(voice_id, "notification of the upload", event.happened_at)
        with about_voice(voice_id), self.traces.step(voice_id, "upload received"):
            await self._handle_upload(voice_id, event)

    async def _handle_upload(self, voice_id: str, event: UploadEvent) -> None:
        try:
            snapshot = await self._read_unowned(voice_id, event)
        except UnknownVoiceError:
            # The document is created before the upload address, so the voice was deleted meanwhile.
            if event.upload.bytes:
                await self._erase(event.upload)
            return
        voice = snapshot.voice
        if not event.upload.bytes:
            # Nothing would ever convert it.
            error = VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it has no bytes.")
            with suppress(ForbiddenTransitionError, UnknownVoiceError):
                await change(self.voices, voice_id, partial(refuse, error=error))
            return
        if voice.status.is_final:
            await self._erase(event.upload)
        if is_settled(voice, event.upload):
            is_same = voice.input is not None and voice.input.is_same_upload(event.upload)
            reason = "same upload" if is_same else f"voice is {voice.status}"
            reason = "voice is made from a text" if voice.is_text else reason
            _LOG.info("event ignored: %s", reason, extra={"event": "duplicate", "reason": reason})
            return
        await self._queue(snapshot, event)

    async def _read_unowned(self, voice_id: str, event: UploadEvent) -> Snapshot:
        """Read a voice when nobody converts it any more, or patience has ended.

        `live` and workers convert most voices in less than a second. To refuse the event until then
        would slow down the delivery of everybody's events (Pub/Sub's push backoff).
        """
        pause, left = FIRST_PAUSE, self.patience
        while True:
            snapshot = await self.voices.read(voice_id)
            owned = min(owned_seconds(snapshot, event), left)
            if owned <= 0:
                return snapshot
            pause = min(pause, owned)
            await self.sleep(pause)
            left -= pause
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _queue(self, snapshot: Snapshot, event: UploadEvent) -> None:
        upload = event.upload
        # A voice that a worker owns is left to it: then this raises, and nothing is published.
        queue_again(snapshot.voice, snapshot.read_at, upload)
        try:
            await request_conversion(
                self.conversions,
                self.voices,
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
        facts = {"bytes": upload.bytes, "content_type": upload.content_type}
        extra = {"event": "upload_received", "generation": upload.generation, **facts}
        _LOG.info("upload received", extra=extra)

    async def _erase(self, upload: Input) -> None:
        await self.uploads().empty(upload.object, upload.generation)
        _LOG.info("erased the upload of a voice that is over", extra={"event": "upload_erased"})


def owned_seconds(snapshot: Snapshot, event: UploadEvent) -> float:
    """Return for how long a voice is left to whoever converts the recording of an event."""
    voice = snapshot.voice
    if is_settled(voice, event.upload):
        return 0.0
    if voice.status is Status.WAITING and event.metadata.items() >= LIVE.items():
        # A conversion that began now would only take the voice away from `live`.
        try:
            age = snapshot.read_at - datetime.fromisoformat(event.happened_at)
        except (TypeError, ValueError):
            return 0.0
        return (LEASING - age).total_seconds()
    return voice.lease_remaining(snapshot.read_at).total_seconds()


def is_settled(voice: Voice, upload: Input) -> bool:
    """Check whether another message covers the voice of an upload.

    `live` leases a voice without any message. If it dies, only this event tells of the recording.
    The conversion of a text is requested by the api, or by the sweep if the api could not.
    """
    if voice.is_text:
        return True
    if voice.status is Status.CONVERTING:
        return voice.input is None or not voice.input.is_same_upload(upload)
    return voice.status is not Status.WAITING
