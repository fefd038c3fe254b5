"""What happens to a message that was delivered as often as it may be."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.logs import about_voice
from shared.messages import MalformedMessageError, parse_conversion_message, parse_upload_event
from shared.objects import voice_of_upload
from shared.ports.store import UnknownVoiceError, UnreadableVoiceError, change
from shared.voice import ErrorCode, ForbiddenTransitionError, VoiceError, give_up

if TYPE_CHECKING:
    from datetime import datetime

    from shared.google.cloud_storage import Bucket
    from shared.messages import PushMessage
    from shared.ports.store import VoiceStore
    from shared.voice import Voice

_LOG = logging.getLogger(__name__)


class DeadLetterHandler:
    """Sets the voice of a dead letter to failed, so that nobody waits for it any longer.

    What attempts have stored that came to nothing is deleted: no other message will come whose
    worker does it. The dead letter itself stays in the retained subscription beside this one.

    Args:
        voices: the voices' documents.
        results: the bucket of the results.
    """

    def __init__(self, voices: VoiceStore, results: Bucket) -> None:
        self._voices = voices
        self._results = results

    async def handle(self, message: PushMessage) -> None:
        """Handle one dead letter; may be called again with the same.

        Raises:
            LeaseHeldError: a worker still has the voice; come again when it is over.
            StorageUnavailableError, StoreUnavailableError: come again later.
        """
        voice_id = _voice_of(message)
        # The alert counts this entry, so it is written for every dead letter, also a strange one.
        extra = {"event": "dead_lettered", "subscription": message.subscription}
        if voice_id is None:
            _LOG.error("dead letter that names no voice", extra=extra)
            return
        with about_voice(voice_id):
            _LOG.error("dead letter", extra=extra)
            await self._give_up(voice_id)

    async def _give_up(self, voice_id: str) -> None:
        error = VoiceError(
            ErrorCode.ATTEMPTS_EXHAUSTED,
            "The conversion was tried several times and failed each time; please record again.",
        )

        def transition(voice: Voice, now: datetime) -> Voice:
            return give_up(voice, error, now=now)

        own_result = ""
        try:
            await change(self._voices, voice_id, transition)
        except UnreadableVoiceError as reason:
            # Nobody can say what the voice's result is, so nothing is deleted: its lifecycle does.
            _LOG.error("nothing to give up: %s", reason, extra={"event": "unreadable_voice"})
            return
        except UnknownVoiceError as reason:
            _log_duplicate(reason)
        except ForbiddenTransitionError as reason:
            _log_duplicate(reason)
            own_result = reason.voice.result.object if reason.voice.result else ""
        await self._results.delete_all(f"{voice_id}/", except_for=own_result)


def _log_duplicate(reason: Exception) -> None:
    _LOG.info("nothing to give up: %s", reason, extra={"event": "duplicate"})


def _voice_of(message: PushMessage) -> str | None:
    """Return the voice_id that a message of either topic is about, None if it names none."""
    try:
        return parse_conversion_message(message).voice_id
    except MalformedMessageError:
        pass
    try:
        return voice_of_upload(parse_upload_event(message).name)
    except MalformedMessageError:
        return None
