"""What happens when an upload is finished: its conversion is asked for, then recorded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.logs import about_voice
from shared.messages import FINALIZE, ConversionMessage, parse_upload_event
from shared.objects import voice_of_upload
from shared.ports.store import UnknownVoiceError, change
from shared.voice import ForbiddenTransitionError, Status, queue

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shared.google.cloud_storage import Bucket
    from shared.messages import PushMessage, UploadEvent
    from shared.ports.store import Snapshot, VoiceStore
    from shared.ports.topic import Publisher
    from shared.voice import Input, Voice

_LOG = logging.getLogger(__name__)


class UploadHandler:
    """Turns the notification of a finished upload into a conversion message.

    Args:
        voices: the voices' documents.
        conversions: the topic of the conversion messages.
        uploads: opens the bucket of the recordings; called only when one must be erased.
    """

    def __init__(
        self, voices: VoiceStore, conversions: Publisher, uploads: Callable[[], Bucket]
    ) -> None:
        self._voices = voices
        self._conversions = conversions
        self._uploads = uploads

    async def handle(self, message: PushMessage) -> None:
        """Handle one notification; may be called again with the same, and out of order."""
        event = parse_upload_event(message)
        if event.event_type != FINALIZE:
            return
        voice_id = voice_of_upload(event.name)
        if voice_id is None:
            extra = {"event": "stray_upload", "object": event.name[:200]}
            _LOG.warning("an upload that belongs to no voice", extra=extra)
            return
        with about_voice(voice_id):
            await self._handle_upload(voice_id, event)

    async def _handle_upload(self, voice_id: str, event: UploadEvent) -> None:
        try:
            snapshot = await self._voices.read(voice_id)
        except UnknownVoiceError:
            await self._erase(event.upload)
            return
        if snapshot.voice.status is not Status.WAITING:
            _log_duplicate(snapshot.voice, event.upload)
            return
        await self._queue(snapshot, event)

    async def _queue(self, snapshot: Snapshot, event: UploadEvent) -> None:
        voice_id, upload = snapshot.voice.voice_id, event.upload
        # Publish first: a crash before the record repeats the message, the other order loses it.
        message = ConversionMessage(voice_id, upload)
        attributes = {"voice_id": voice_id, "uploaded_at": event.happened_at}
        await self._conversions.publish(message.encode(), attributes)

        def transition(voice: Voice, now: datetime) -> Voice:
            return queue(voice, upload, now=now)

        try:
            # Without reading again: the conversion that has begun wants the document, too.
            await change(self._voices, voice_id, transition, snapshot)
        except (ForbiddenTransitionError, UnknownVoiceError) as error:
            # The conversion was faster than its record, or the visitor deleted the voice.
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
        # The document is made before the address to upload to, so it was deleted meanwhile.
        await self._uploads().delete(upload.object, upload.generation)
        _LOG.info("erased the upload of a deleted voice", extra={"event": "upload_erased"})


def _log_duplicate(voice: Voice, upload: Input) -> None:
    same = voice.input is not None and voice.input.is_same_upload(upload)
    reason = "same upload" if same else f"voice is {voice.status}"
    _LOG.info("event ignored: %s", reason, extra={"event": "duplicate", "reason": reason})
