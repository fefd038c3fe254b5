"""What is to be done about a voice that has not changed for long: pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.voice import Status

if TYPE_CHECKING:
    from datetime import datetime

    from shared.voice import Input, Voice


class Remedy(StrEnum):
    """What is done about a voice."""

    NONE = "none"
    PUT_BACK = "put_back"
    EXPIRE = "expire"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited before something counts as lost.

    Attributes:
        unchanged: for a voice that should be on its way.
        upload: for a recording, from the voice's creation.
    """

    unchanged: timedelta
    upload: timedelta

    @classmethod
    def of(cls, *, unchanged_seconds: float, upload_url_seconds: float) -> Patience:
        """Return the patience that follows from two settings, in seconds.

        An upload that began in time may take as long again, as the api sees it, too.
        """
        return cls(timedelta(seconds=unchanged_seconds), timedelta(seconds=2 * upload_url_seconds))


def decide(voice: Voice, upload: Input | None, *, now: datetime, patience: Patience) -> Remedy:
    """Decide what to do about a voice.

    Args:
        voice: the voice as stored.
        upload: its recording as it lies in the bucket, None if there is none; asked for only
            while the voice waits.
        now: the store's time.
        patience: how long is waited.
    """
    if voice.status.is_final or voice.lease_remaining(now) > timedelta(0):
        return Remedy.NONE
    quiet_for = now - max(voice.updated_at, voice.lease_expires_at or voice.updated_at)
    if quiet_for < patience.unchanged:
        return Remedy.NONE
    if voice.status is not Status.WAITING or upload is not None:
        return Remedy.PUT_BACK
    return Remedy.EXPIRE if now - voice.created_at > patience.upload else Remedy.NONE
