"""What happens to a dead letter: a message that was delivered as often as it may be."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from shared.logs import about_voice
from shared.messages import MalformedMessageError, parse_conversion_message, parse_upload_event
from shared.objects import voice_of_upload
from shared.ports.store import UnknownVoiceError, UnreadableVoiceError, change
from shared.voice import ErrorCode, ForbiddenTransitionError, VoiceError, give_up

if TYPE_CHECKING:
    from shared.messages import PushMessage
    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore

_LOG = logging.getLogger(__name__)


class DeadLetterHandler:
    """Fails the voice of a dead letter, so that its visitor does not wait any longer.

    It also deletes the objects that unsuccessful attempts have stored, because no further message
    comes whose worker would do that. The dead letter itself stays in a retained subscription.

    Args:
        voices: the voices' documents.
        results: the bucket of the results.
    """

    def __init__(self, voices: VoiceStore, results: Bucket) -> None:
        self._voices = voices
        self._results = results

    async def handle(self, message: PushMessage) -> None:
        """Handle one dead letter; it may come several times.

        Raises:
            LeaseHeldError: a worker still owns the voice; the letter must be delivered again.
            PassingError: Firestore or Cloud Storage did not answer; likewise.
        """
        voice_id = _voice_of(message)
        # An alert counts these entries, so every dead letter gets one, even if it names no voice.
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
        own_result = ""
        try:
            await change(self._voices, voice_id, partial(give_up, error=error))
        except UnreadableVoiceError as reason:
            # Which object is the voice's result is unknown, so the bucket's lifecycle deletes them.
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
    """Return the voice_id that a message of either topic names, None if it names none."""
    try:
        return parse_conversion_message(message).voice_id
    except MalformedMessageError:
        pass
    try:
        return voice_of_upload(parse_upload_event(message).name)
    except MalformedMessageError:
        return None
