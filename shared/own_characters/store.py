"""The port to the documents of visitors' own characters, and how they are changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from shared.ports.store import COMPETITION_LIMIT, ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from shared.own_characters.own_character import OwnCharacter


class DayLimit(StrEnum):
    """Which number of a day is reached."""

    ALL = "all"
    OWNER = "owner"


class DayLimitReachedError(Exception):
    """As many characters were begun in the last day as may be.

    Args:
        limit: by everybody together, or by this one owner.
    """

    def __init__(self, limit: DayLimit) -> None:
        super().__init__(limit.value)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Begun:
    """That a character was begun, which a deletion does not undo.

    Attributes:
        at: when.
        by: whose, by a name that says nothing to others.
    """

    at: datetime
    by: str


@dataclass(frozen=True, slots=True)
class DayLimits:
    """How many characters may be begun in a day.

    Attributes:
        by_all: by everybody together.
        by_owner: by one owner.
    """

    by_all: int
    by_owner: int

    def require_place(self, begun: Sequence[Begun], by: str) -> None:
        """Refuse one more; `begun` is what was begun in the last day.

        Raises:
            DayLimitReachedError: a number is reached; the owner's own is named first.
        """
        if sum(each.by == by for each in begun) >= self.by_owner:
            raise DayLimitReachedError(DayLimit.OWNER)
        if len(begun) >= self.by_all:
            raise DayLimitReachedError(DayLimit.ALL)


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

    async def create(self, character: OwnCharacter, *, limits: DayLimits, by: str) -> None:
        """Write a new document.

        Args:
            character: has just been begun.
            limits: how many may be begun in a day.
            by: whose it is, for their own number; says nothing to others.

        Raises:
            DayLimitReachedError: nothing is written.
        """
        ...

    async def take_place(self, *, limits: DayLimits, by: str) -> None:
        """Count a further training as a new character is counted; raises as `create`."""
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

    async def in_training(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters that a trainer holds, whose lease has not ended."""
        ...

    async def to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters whose recordings are to be deleted."""
        ...

    async def public(self, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters that their owners show to everybody, those that changed first."""
        ...

    async def of_owner(self, owner: str, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters of a Firebase uid, those that were begun last first."""
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
