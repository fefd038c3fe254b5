"""The port to the documents of visitors' own characters, and how they are changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shared.ports.store import COMPETITION_LIMIT, ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from shared.own_characters.own_character import OwnCharacter


class UnknownOwnCharacterError(LookupError):
    """There is no document of this id: it was never created, was deleted, or has expired."""


@dataclass(frozen=True, slots=True)
class OwnCharacterSnapshot:
    """A character as it was read.

    Attributes:
        character: the character.
        revision: opaque; identifies this state of the document for `replace`.
        read_at: the store's time when it was read or written.
    """

    character: OwnCharacter
    revision: object
    read_at: datetime


class OwnCharacterStore(Protocol):
    """Where the documents of visitors' own characters are kept.

    Every method raises `StoreUnavailableError` when the store does not answer.
    """

    async def create(self, character: OwnCharacter, *, most_per_day: int) -> bool:
        """Write a new document; False, and nothing is written, if a day's number is reached."""
        ...

    async def take_place(self, *, most_per_day: int) -> bool:
        """Count a further training as a new character is counted; False if there is no place."""
        ...

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        """Read a document.

        Raises:
            UnknownOwnCharacterError: it does not exist.
        """
        ...

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        """Write `character` if the document is still the one of `snapshot`.

        Raises:
            ConflictError: the document was changed or deleted.
        """
        ...

    async def delete(self, character_id: str) -> None:
        """Delete a document; it is no error if it does not exist."""
        ...

    async def waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters that a trainer may take, those that wait longest first."""
        ...

    async def to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters whose recordings are to be deleted."""
        ...

    async def public(self, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters that their owners show to everybody, those that changed first."""
        ...

    async def aclose(self) -> None:
        """Close what it is connected with."""
        ...


async def change_own(
    store: OwnCharacterStore,
    character_id: str,
    transition: Callable[[OwnCharacter, datetime], OwnCharacter],
) -> OwnCharacter:
    """Apply a transition to a stored character; retry when another writer was first.

    Raises:
        UnknownOwnCharacterError: there is no such character.
        ConflictError: other writers were first `COMPETITION_LIMIT` times in a row.
        Exception: the transition refused; any exception of it is passed on.
    """
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
