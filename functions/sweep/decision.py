"""The decision what to do about a voice that has not changed for long; this module is pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.voices.voice import Status, upload_has_expired

if TYPE_CHECKING:
    from datetime import datetime

    from shared.voices.voice import Input, Voice


class Remedy(StrEnum):
    """The decision of a sweep about a voice."""

    NONE = "none"
    PUT_BACK = "put_back"
    EXPIRE = "expire"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before an event or a message counts as lost.

    Attributes:
        unchanged: how long a voice may stay unchanged.
        upload: how long an upload address works, from the voice's creation.
    """

    unchanged: timedelta
    upload: timedelta

    @classmethod
    def of(cls, *, unchanged_seconds: float, upload_url_seconds: float) -> Patience:
        """Return the patience for two settings in seconds."""
        return cls(timedelta(seconds=unchanged_seconds), timedelta(seconds=upload_url_seconds))


def decide(voice: Voice, upload: Input | None, *, now: datetime, patience: Patience) -> Remedy:
    """Decide what to do about a voice.

    Args:
        voice: the voice as stored.
        upload: its recording, None if there is none. For a voice that waits this is what the
            bucket holds, for any other what its document says.
        now: the store's time.
        patience: how long to wait.
    """
    if voice.status.is_final:
        return Remedy.NONE
    # A voice that a worker owns counts as unchanged from the end of its lease on.
    quiet_for = now - max(voice.updated_at, voice.lease_expires_at or voice.updated_at)
    if quiet_for < patience.unchanged:
        return Remedy.NONE
    if voice.status is not Status.WAITING or upload is not None:
        return Remedy.PUT_BACK
    return Remedy.EXPIRE if upload_has_expired(voice, now, patience.upload) else Remedy.NONE
