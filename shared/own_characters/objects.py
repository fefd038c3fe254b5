"""The names of the recordings that an owner has made for a character, in their bucket."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.voices.objects import ObjectFacts

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


def kept_prefix(character_id: str) -> str:
    """Return how the names begin under which a training keeps what it has done so far.

    They lie among the character's recordings, of which they have parts, and go with them.
    """
    return f"{character_id}/kept/"


def recordings_among(objects: Iterable[ObjectFacts]) -> Sequence[ObjectFacts]:
    """Return the objects that an owner has brought; a training keeps others beside them."""
    return [each for each in objects if each.name.split("/")[1] in set(Kind)]


def new_recording_name(character_id: str, kind: Kind) -> str:
    """Draw a name that nobody can guess, so that it is never used twice."""
    return f"{recordings_prefix(character_id, kind)}{uuid4().hex}"


def recording_name(character_id: str, kind: Kind, recording_id: str) -> str:
    """Return the name of a recording."""
    return f"{recordings_prefix(character_id, kind)}{recording_id}"


def beyond_all_limits(recordings: Iterable[ObjectFacts]) -> Sequence[ObjectFacts]:
    """Return those of a character's recordings that came last and are far too many.

    The api counts what was uploaded before it signs an address, so many addresses that are used at
    once bring more than it allows. An owner who keeps to it never has twice as much.
    """
    beyond, count, size = [], 0, 0
    for each in sorted(recordings, key=lambda each: each.generation):
        count, size = count + 1, size + each.bytes
        if count > 2 * MAX_RECORDINGS or size > 2 * MAX_TOTAL_BYTES:
            beyond.append(each)
    return beyond


CARD: Final = "card.json"
"""The name of an owner's card beside its sounds; the training command writes both."""


def card_prefix(character_id: str) -> str:
    """Return how the names of the objects of a character's card begin, in the characters' bucket.

    They are for its owner alone.
    """
    return f"{character_id}/card/"


def own_sounds_prefix(character_id: str) -> str:
    """Return how the names of those sounds begin that are parts of the owner's recordings."""
    return f"{card_prefix(character_id)}own-"
