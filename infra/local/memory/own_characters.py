"""The documents of visitors' own characters in memory, without Firestore.

Unit tests use it, and so does the local cloud without Google's emulator.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from shared.own_characters.own_character import Status, is_to_clean, is_waiting
from shared.own_characters.ownership import is_public
from shared.own_characters.store import Begun, OwnCharacterSnapshot, UnknownOwnCharacterError
from shared.ports.store import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.own_characters.own_character import OwnCharacter
    from shared.own_characters.store import DayLimits


class MemoryOwnCharacters:
    """An `OwnCharacterStore` for one event loop of one process.

    Args:
        now: the store's clock.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._revisions = count(1)
        self._entries: dict[str, tuple[OwnCharacter, int]] = {}
        # Deleting a character does not give its place of the day back.
        self._begun: list[Begun] = []

    async def create(self, character: OwnCharacter, *, limits: DayLimits, by: str) -> None:
        """Write a new document; `DayLimitReachedError` if a day's number is reached."""
        self._take_place(Begun(character.created_at, by), limits)
        self._write(character)

    async def take_place(self, *, limits: DayLimits, by: str) -> None:
        """Count a further training; `DayLimitReachedError` if a day's number is reached."""
        self._take_place(Begun(self._now(), by), limits)

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        """Read a document; `UnknownOwnCharacterError` if there is none."""
        if character_id not in self._entries:
            raise UnknownOwnCharacterError(character_id)
        return self._snapshot(character_id)

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        """Write over the state of `snapshot`; `ConflictError` if that is gone."""
        character_id = character.character_id
        _, revision = self._entries.get(character_id, (None, None))
        if revision != snapshot.revision:
            raise ConflictError(f"character {character_id} was changed by another")
        self._write(character)
        return self._snapshot(character_id)

    async def delete(self, character_id: str) -> None:
        """Delete a document, if there is one."""
        self._entries.pop(character_id, None)

    async def waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters that a trainer may take, those that wait longest first."""
        return self._found(lambda each: is_waiting(each, self._now()))[:limit]

    async def in_training(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters that a trainer holds, whose lease has not ended."""
        return self._found(
            lambda each: each.status is Status.TRAINING and not is_waiting(each, self._now())
        )[:limit]

    async def to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters whose recordings are to be deleted."""
        return self._found(lambda each: is_to_clean(each, self._now()))[:limit]

    async def public(self, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters that their owners show to everybody, those that changed first."""
        return [each.character for each in self._found(is_public)[:limit]]

    async def of_owner(self, owner: str, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters of a Firebase uid, those that were begun last first."""
        found = [each for each, _ in self._entries.values() if each.owner == owner]
        return sorted(found, key=lambda each: each.created_at, reverse=True)[:limit]

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _take_place(self, begun: Begun, limits: DayLimits) -> None:
        since = self._now() - timedelta(days=1)
        self._begun = [each for each in self._begun if each.at > since]
        limits.require_place(self._begun, begun.by)
        self._begun.append(begun)

    def _found(self, wanted: Callable[[OwnCharacter], bool]) -> Sequence[OwnCharacterSnapshot]:
        found = [each for each, _ in self._entries.values() if wanted(each)]
        ordered = sorted(found, key=lambda each: each.updated_at)
        return [self._snapshot(each.character_id) for each in ordered]

    def _snapshot(self, character_id: str) -> OwnCharacterSnapshot:
        character, revision = self._entries[character_id]
        return OwnCharacterSnapshot(character, revision, self._now())

    def _write(self, character: OwnCharacter) -> None:
        self._entries[character.character_id] = character, next(self._revisions)
