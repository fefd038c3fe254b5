"""Handles dead letters: messages that were delivered as often as they may be."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from shared.pipeline import request_conversion
from shared.runtime.logs import about_voice
from shared.voices.messages import (
    ConversionMessage,
    MalformedMessageError,
    parse_conversion_message,
    parse_upload_event,
)
from shared.voices.objects import upload_name, voice_of_upload
from shared.voices.store import UnknownVoiceError, UnreadableVoiceError, change
from shared.voices.voice import ForbiddenTransitionError, give_up, queue_again

if TYPE_CHECKING:
    from shared.ports import Bucket, Publisher
    from shared.voices.messages import PushMessage
    from shared.voices.store import Snapshot, VoiceStore

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetterHandler:
    """Ends the voice of a dead letter, or puts it back if only capacity or a service was lacking.

    Pub/Sub counts every delivery, also those that were refused for lack of capacity. So not their
    number decides, but the attempts in the voice's document and its age. The recording and the
    results of an ended voice are deleted, because no worker gets another message about it.
    """

    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    conversions: Publisher

    async def handle(self, message: PushMessage) -> None:
        """Handle one dead letter, which may come several times.

        `PassingError` if a worker still owns the voice: the letter must be delivered again.
        """
        conversion = conversion_of(message)
        if conversion is None:
            extra = {"event": "dead_lettered", "subscription": message.subscription}
            # An alert counts these entries, so this letter gets one, too.
            _LOG.error("dead letter that names no voice", extra=extra)
            return
        with about_voice(conversion.voice_id):
            try:
                await self._decide(conversion, message)
            except UnreadableVoiceError as reason:
                # Which object is its result is unknown, so the bucket's lifecycle deletes them.
                _LOG.error("nothing to give up: %s", reason, extra={"event": "unreadable_voice"})

    async def _decide(self, conversion: ConversionMessage, message: PushMessage) -> None:
        voice_id, own_result = conversion.voice_id, ""
        try:
            snapshot = await self.voices.read(voice_id)
            if snapshot.voice.may_be_tried(snapshot.read_at):
                await self._put_back(conversion, snapshot, message)
                return
            extra = {"event": "dead_lettered", "subscription": message.subscription}
            _LOG.error("dead letter", extra=extra)
            await change(self.voices, voice_id, give_up, snapshot)
        except (UnknownVoiceError, ForbiddenTransitionError) as reason:
            _LOG.info("nothing to give up: %s", reason, extra={"event": "duplicate"})
            if isinstance(reason, ForbiddenTransitionError) and reason.voice.result:
                own_result = reason.voice.result.object
        await self.results.delete_all(f"{voice_id}/", except_for=own_result)
        await self.uploads.empty(upload_name(voice_id), conversion.upload.generation)

    async def _put_back(
        self, conversion: ConversionMessage, snapshot: Snapshot, message: PushMessage
    ) -> None:
        # A voice that a worker owns is left to it, and nothing is published for one that is over.
        queue_again(snapshot.voice, snapshot.read_at, conversion.upload)
        attributes = message.attributes
        uploaded_at = attributes.get("uploaded_at") or attributes.get("eventTime", "")
        # The deliveries of a new message are counted from zero.
        await request_conversion(
            self.conversions,
            self.voices,
            replace(conversion, client=snapshot.voice.client),
            partial(queue_again, upload=conversion.upload),
            attributes={"uploaded_at": uploaded_at},
            known=snapshot,
        )
        extra = {"event": "delayed", "subscription": message.subscription}
        _LOG.warning("put back: no worker has had time for it", extra=extra)


def conversion_of(message: PushMessage) -> ConversionMessage | None:
    """Return the conversion that a message of either topic is about; None if it names no voice."""
    try:
        return parse_conversion_message(message)
    except MalformedMessageError:
        pass
    try:
        event = parse_upload_event(message)
    except MalformedMessageError:
        return None
    voice_id = voice_of_upload(event.name)
    return None if voice_id is None else ConversionMessage(voice_id, event.upload)
