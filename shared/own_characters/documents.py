"""How a visitor's own character is stored as a document: its field names and types in Firestore."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.characters.spoken_consent import ConsentSentence
from shared.own_characters.own_character import (
    OwnCharacter,
    Status,
    TrainingErrorCode,
    TrainingFailure,
    TypedConsent,
    Visibility,
)
from shared.own_characters.ownership import is_public
from shared.own_characters.store import Begun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

COLLECTION: Final = "own_characters"
"""One document per character. Clients may not read it: it has the owner's name and contact."""

STATES: Final = "own_character_states"
"""One document per character, to which its owner's client listens: how far it is, nothing else."""

BEGUN: Final = "own_character_limits/begun"
"""The document that says when, and by whom, the characters of the last day were begun."""

_KEPT_LONGER: Final = timedelta(days=1)
"""By how much Firestore deletes later than the trainer, which deletes the recordings, too."""


def document_path(character_id: str) -> str:
    """Return the path of a character's document."""
    return f"{COLLECTION}/{character_id}"


def state_path(character_id: str) -> str:
    """Return the path of the document to which the owner's client listens."""
    return f"{STATES}/{character_id}"


def to_state(character: OwnCharacter) -> dict[str, Any]:
    """Return what clients that know the id may read: no names, no contact, no digest of the key."""
    document = to_document(character)
    names = ("status", "stage", "share", "error", "owner", "updated_at", "delete_at")
    return {name: document[name] for name in names if name in document}


def to_document(character: OwnCharacter) -> dict[str, Any]:
    """Return the document of a character; the id is its name, not a field.

    Four fields follow from the others, each for one query or lifetime: `train_at`, from when on a
    trainer may take it; `clean_at`, from when on its recordings are to be deleted; `public_at`,
    since when everybody may use it; `delete_at`, when Firestore deletes the document, should nobody
    else have done so. Each is missing where there is no such moment, so that the index has nothing
    of it.
    """
    document = asdict(character)
    del document["character_id"]
    document["status"] = character.status.value
    document["visibility"] = character.visibility.value
    document["sentence"] = character.sentence.to_json()
    if character.error is not None:
        document["error"]["code"] = character.error.code.value
    moments = {
        "train_at": _train_at(character),
        "clean_at": _clean_at(character),
        "public_at": character.updated_at if is_public(character) else None,
        "delete_at": character.expire_at and character.expire_at + _KEPT_LONGER,
    }
    return document | {name: moment for name, moment in moments.items() if moment is not None}


def from_document(character_id: str, document: Mapping[str, Any]) -> OwnCharacter:
    """Return the character of a document; fields that are unknown are ignored.

    Raises:
        KeyError, TypeError, ValueError: the document was not written by `to_document`.
    """
    known = {
        each.name: document[each.name] for each in fields(OwnCharacter) if each.name in document
    }
    error = document["error"]
    parts = {
        "character_id": character_id,
        "status": Status(document["status"]),
        "visibility": Visibility(document["visibility"]),
        "consent": TypedConsent(**document["consent"]),
        "sentence": ConsentSentence.from_json(document["sentence"]),
        "error": error and _failure(error),
    }
    return OwnCharacter(**known | parts)


def begun_since(document: Mapping[str, Any], since: datetime) -> Sequence[Begun]:
    """Return what was begun after some moment, from the document `BEGUN`."""
    begun = [Begun(each["at"], each["by"]) for each in document.get("begun", [])]
    return [each for each in begun if each.at > since]


def _failure(error: Mapping[str, Any]) -> TrainingFailure:
    # Those of before name no recordings.
    recordings = tuple(error.get("recordings", ()))
    return TrainingFailure(TrainingErrorCode(error["code"]), error["message"], recordings)


def _train_at(character: OwnCharacter) -> datetime | None:
    if character.status is Status.TRAINING:
        return character.lease_expires_at or character.updated_at
    return character.updated_at if character.status is Status.QUEUED else None


def _clean_at(character: OwnCharacter) -> datetime | None:
    if character.status is Status.READY:
        is_kept = character.keeps_recordings or not character.has_recordings
        return None if is_kept else character.updated_at
    return character.expire_at if character.status in {Status.COLLECTING, Status.FAILED} else None
