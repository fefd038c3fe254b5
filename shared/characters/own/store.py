"""The port to the documents of visitors' own characters, and what is changed and asked with it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from shared.characters.bucket import is_own_character
from shared.characters.consent import ConsentSentence
from shared.characters.own.own_character import (
    OwnCharacter,
    OwnCharacterStatus,
    TrainingErrorCode,
    TrainingFailure,
    TypedConsent,
    Visibility,
    clean_at,
    is_public,
)
from shared.voices.store import COMPETITION_LIMIT, ConflictError
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from shared.voices.voice import Voice


class DayLimit(StrEnum):
    ALL = "all"
    OWNER = "owner"


class DayLimitReachedError(Exception):
    """A day's limit of new characters is reached: of all owners, or of this one."""

    def __init__(self, limit: DayLimit) -> None:
        super().__init__(limit.value)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class CharacterStart:
    """The start of a character, which a deletion does not undo; `by` is the owner's pseudonym."""

    at: datetime
    by: str


@dataclass(frozen=True, slots=True)
class DayLimits:
    """The most characters that all owners together, and one owner, may begin in a day."""

    by_all: int
    by_owner: int

    def require_place(self, begun: Sequence[CharacterStart], by: str) -> None:
        """Refuse one more if a limit is reached; the owner's own is named first."""
        if sum(each.by == by for each in begun) >= self.by_owner:
            raise DayLimitReachedError(DayLimit.OWNER)
        if len(begun) >= self.by_all:
            raise DayLimitReachedError(DayLimit.ALL)


class UnknownOwnCharacterError(LookupError):
    pass


@dataclass(frozen=True, slots=True)
class OwnCharacterSnapshot:
    character: OwnCharacter
    revision: object  # opaque; identifies this state of the document for `replace`
    read_at: datetime  # the store's time when it was read or written


class OwnCharacterStore(Protocol):
    """The store of the documents of visitors' own characters.

    Every method raises `StoreUnavailableError` when the store does not answer.
    """

    async def create(self, character: OwnCharacter, *, limits: DayLimits, by: str) -> None:
        """Write a new document; `DayLimitReachedError` if a day's limit is reached.

        `by` is the owner's pseudonym, for the owner's own limit.
        """

    async def take_place(self, *, limits: DayLimits, by: str) -> None:
        """Count a further training as a new character; raises as `create`."""

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        """Read a document; `UnknownOwnCharacterError` if it does not exist."""

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        """Compare and set; `ConflictError` if the document changed since `snapshot`."""

    async def delete(self, character_id: str) -> None:
        """Delete a document, if it exists."""

    async def find_waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Return characters that a trainer may take, longest waiting first."""

    async def find_in_training(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Return characters that a trainer holds, whose lease has not ended."""

    async def find_to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Return characters whose recordings must be deleted."""

    async def find_public(self, limit: int) -> Sequence[OwnCharacter]:
        """Return the characters that everybody may use, earliest change first."""

    async def find_by_owner(self, owner: str, limit: int) -> Sequence[OwnCharacter]:
        """Return the characters of a Firebase uid, newest first."""

    async def aclose(self) -> None: ...


async def change_own(
    store: OwnCharacterStore,
    character_id: str,
    transition: Callable[[OwnCharacter, datetime], OwnCharacter],
) -> OwnCharacter:
    """Apply a transition to a stored character; retry when another writer was first."""
    for _ in range(COMPETITION_LIMIT):
        snapshot = await store.read(character_id)
        wanted = transition(snapshot.character, snapshot.read_at)
        if wanted == snapshot.character:
            return wanted
        try:
            return (await store.replace(snapshot, wanted)).character
        except ConflictError:
            continue
    raise ConflictError(
        f"character {character_id} was changed by others {COMPETITION_LIMIT} times in a row"
    )


async def require_usable(voice: Voice, store: OwnCharacterStore | None) -> None:
    """Refuse an own character that was withdrawn or deleted since the voice was created.

    Any other character costs no read. Raises VoiceError (`unknown_character`), or
    StoreUnavailableError.
    """
    if store is None or not is_own_character(voice.character):
        return
    with suppress(UnknownOwnCharacterError):
        character = (await store.read(voice.character)).character
        if character.is_usable(by_owner=voice.owns_character):
            return
    message = f"The character {voice.character!r} was deleted or withdrawn by its owner."
    raise VoiceError(ErrorCode.UNKNOWN_CHARACTER, message)


COLLECTION: Final = "own_characters"
"""One document per character. Clients may not read it: it has the owner's name and contact."""

STATES: Final = "own_character_states"
"""One document per character, to which its owner's client listens: how far it is, nothing else."""

BEGUN: Final = "own_character_limits/begun"
"""The document that says when, and by whom, the characters of the last day were begun."""

_KEPT_LONGER: Final = timedelta(days=1)
"""The delay of Firestore's deletion after the trainer's, which deletes the recordings, too."""


def document_path(character_id: str) -> str:
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
    """Return the document of a character, which is named by the id.

    Four fields follow from the others, each for one query or lifetime: a trainer may take it from
    `train_at` on, its recordings must be deleted from `clean_at` on, everybody may use it since
    `public_at`, and Firestore deletes it at `delete_at` if nothing else does. A field without such
    a time is missing, so that the index does not have it.
    """
    document = asdict(character)
    del document["character_id"]
    document["status"] = character.status.value
    document["visibility"] = character.visibility.value
    document["sentence"] = character.sentence.to_json()
    if character.error is not None:
        document["error"]["code"] = character.error.code.value
    moments = {
        "train_at": train_at(character),
        "clean_at": clean_at(character),
        "public_at": character.updated_at if is_public(character) else None,
        "delete_at": character.expire_at and character.expire_at + _KEPT_LONGER,
    }
    return document | {name: moment for name, moment in moments.items() if moment is not None}


def from_document(character_id: str, document: Mapping[str, Any]) -> OwnCharacter:
    """Return the character of a document; unknown fields are ignored.

    A document that `to_document` did not write raises KeyError, TypeError or ValueError.
    """
    known = {
        each.name: document[each.name] for each in fields(OwnCharacter) if each.name in document
    }
    failure = None
    if error := document["error"]:
        # Older documents name no recordings.
        recordings = tuple(error.get("recordings", ()))
        code = TrainingErrorCode(error["code"])
        failure = TrainingFailure(code, error["message"], recordings)
    parts = {
        "character_id": character_id,
        "status": OwnCharacterStatus(document["status"]),
        "visibility": Visibility(document["visibility"]),
        "consent": TypedConsent(**document["consent"]),
        "sentence": ConsentSentence.from_json(document["sentence"]),
        "error": failure,
    }
    return OwnCharacter(**known | parts)


def starts_since(document: Mapping[str, Any], since: datetime) -> Sequence[CharacterStart]:
    """Return the starts after some time, from the document `BEGUN`."""
    begun = [CharacterStart(each["at"], each["by"]) for each in document.get("begun", [])]
    return [each for each in begun if each.at > since]


def train_at(character: OwnCharacter) -> datetime | None:
    if character.status is OwnCharacterStatus.TRAINING:
        return character.lease_expires_at or character.updated_at
    return character.updated_at if character.status is OwnCharacterStatus.QUEUED else None
