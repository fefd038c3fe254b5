"""The names of the recordings that an owner has made for a character, in their bucket."""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from uuid import uuid4

MAX_RECORDINGS: Final = 200
MAX_RECORDING_BYTES: Final = 4_000_000
MAX_TOTAL_BYTES: Final = 120_000_000


class Kind(StrEnum):
    """What a recording is for."""

    SPEECH = "speech"
    CONSENT = "consent"


def recordings_prefix(character_id: str, kind: Kind | None = None) -> str:
    """Return how the names of a character's recordings begin: of all, or of one kind."""
    return f"{character_id}/" if kind is None else f"{character_id}/{kind.value}/"


def new_recording_name(character_id: str, kind: Kind) -> str:
    """Draw a name that nobody can guess, so that it is never used twice."""
    return f"{recordings_prefix(character_id, kind)}{uuid4().hex}"


def recording_name(character_id: str, kind: Kind, recording_id: str) -> str:
    """Return the name of a recording."""
    return f"{recordings_prefix(character_id, kind)}{recording_id}"
