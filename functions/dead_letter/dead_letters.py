"""Handles dead letters: messages that were delivered as often as they may be."""

from __future__ import annotations

import logging
from dataclasses import replace
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
from shared.voices.voice import CONVERTED_WITHIN, ForbiddenTransitionError, give_up, queue_again

if TYPE_CHECKING:
    from shared.ports import Bucket, Publisher
    from shared.voices.messages import PushMessage
    from shared.voices.store import Snapshot, VoiceStore

_LOG = logging.getLogger(__name__)


class DeadLetterHandler:
    """Ends the voice of a dead letter, or puts it back if only room or a service was lacking.

    Pub/Sub counts every delivery, also those that were refused because all places were taken. So
    the number of deliveries says nothing about the voice; the attempts in its document do, and its
    age. Where the voice is ended, its recording and what its attempts have stored are deleted,
    because no further message comes whose worker would do that. The dead letter itself stays in a
    retained subscription.
    """

    def __init__(
        self, voices: VoiceStore, uploads: Bucket, results: Bucket, conversions: Publisher
    ) -> None:
        self._voices = voices
        self._uploads = uploads
        self._results = results
        self._conversions = conversions

    async def handle(self, message: PushMessage) -> None:
        """Handle one dead letter; it may come several times.

        Raises:
            LeaseHeldError: a worker still owns the voice; the letter must be delivered again.
            PassingError: Firestore, Pub/Sub or Cloud Storage did not answer; likewise.
        """
        wish = _wish_of(message)
        if wish is None:
            extra = {"event": "dead_lettered", "subscription": message.subscription}
            # An alert counts these entries, so this letter gets one, too.
            _LOG.error("dead letter that names no voice", extra=extra)
            return
        with about_voice(wish.voice_id):
            try:
                await self._decide(wish, message)
            except UnreadableVoiceError as reason:
                # Which object is its result is unknown, so the bucket's lifecycle deletes them.
                _LOG.error("nothing to give up: %s", reason, extra={"event": "unreadable_voice"})

    async def _decide(self, wish: ConversionMessage, message: PushMessage) -> None:
        try:
            snapshot = await self._voices.read(wish.voice_id)
            if _may_be_put_back(snapshot):
                await self._put_back(wish, snapshot, message)
                return
            extra = {"event": "dead_lettered", "subscription": message.subscription}
            _LOG.error("dead letter", extra=extra)
            await change(self._voices, wish.voice_id, give_up, snapshot)
            own_result = ""
        except UnknownVoiceError as reason:
            _log_duplicate(reason)
            own_result = ""
        except ForbiddenTransitionError as reason:
            _log_duplicate(reason)
            own_result = reason.voice.result.object if reason.voice.result else ""
        await self._results.delete_all(f"{wish.voice_id}/", except_for=own_result)
        await self._uploads.empty(upload_name(wish.voice_id), wish.upload.generation)

    async def _put_back(
        self, wish: ConversionMessage, snapshot: Snapshot, message: PushMessage
    ) -> None:
        """Request the conversion again, with a message whose deliveries are counted from zero."""
        # A voice that a worker owns is left to it, and nothing is published for one that is over.
        queue_again(snapshot.voice, snapshot.read_at, wish.upload)
        told = message.attributes
        uploaded_at = told.get("uploaded_at") or told.get("eventTime", "")
        await request_conversion(
            self._conversions,
            self._voices,
            replace(wish, client=snapshot.voice.client),
            partial(queue_again, upload=wish.upload),
            attributes={"uploaded_at": uploaded_at},
            known=snapshot,
        )
        extra = {"event": "delayed", "subscription": message.subscription}
        _LOG.warning("put back: no worker has had time for it", extra=extra)


def _may_be_put_back(snapshot: Snapshot) -> bool:
    voice = snapshot.voice
    is_young = snapshot.read_at < voice.created_at + CONVERTED_WITHIN
    return voice.has_attempts_left and is_young


def _log_duplicate(reason: Exception) -> None:
    _LOG.info("nothing to give up: %s", reason, extra={"event": "duplicate"})


def _wish_of(message: PushMessage) -> ConversionMessage | None:
    """Return the conversion that a message of either topic is about, None if it names no voice."""
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
