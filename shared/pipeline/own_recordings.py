"""Deletes what of visitors' own characters nobody may keep: recordings, checkpoints, bundles."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from shared.characters.bucket import manifest_name
from shared.characters.own_ids import PREFIX
from shared.own_characters import own_character as own
from shared.own_characters.objects import (
    beyond_all_limits,
    own_sounds_prefix,
    recordings_among,
    recordings_prefix,
)
from shared.own_characters.own_character import Status
from shared.own_characters.store import UnknownOwnCharacterError, change_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.own_characters.store import OwnCharacterStore
    from shared.ports.bucket import Bucket

_CLEANED_AT_ONCE: Final = 20
_LOOKED_AT: Final = timedelta(days=1)
_GENERATIONS_PER_SECOND: Final = 1_000_000
"""Cloud Storage's generations are the microseconds at which an object was written."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Cleans up after owners and trainers.

    Attributes:
        store: the characters' documents.
        recordings: the bucket of the owners' recordings.
        characters: the bucket of the bundles.
        now: the time.
    """

    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def clean(self) -> None:
        """Delete the recordings of ready characters, and all of those whose time is over.

        An upload address works for some minutes, whatever becomes of its character. So what comes
        late is deleted, too, and what is more than the api lets an owner bring.

        Raises:
            PassingError: the store or a bucket does not answer.
        """
        for snapshot in await self.store.to_clean(limit=_CLEANED_AT_ONCE):
            character_id = snapshot.character.character_id
            await self.recordings.delete_all(recordings_prefix(character_id))
            await self.characters.delete_all(own_sounds_prefix(character_id))
            if snapshot.character.status is Status.READY:
                with suppress(UnknownOwnCharacterError):
                    await change_own(self.store, character_id, own.without_recordings)
            else:
                # A trainer may have been killed after it had published what it had made.
                await withdraw(self.characters, character_id)
                await self.store.delete(character_id)
        found = await self.recordings.list()
        for character_id, objects in groupby(found, lambda each: each.name.split("/")[0]):
            all_of_it = list(objects)
            kept = await self._still_wants_recordings(character_id)
            for each in beyond_all_limits(recordings_among(all_of_it)) if kept else all_of_it:
                await self.recordings.delete(each.name, each.generation)
        await self._withdraw_orphans()

    async def _withdraw_orphans(self) -> None:
        """Remove bundles whose characters were deleted while they were published.

        A trainer that finds the document gone does that itself, unless it is killed before. Those
        that are older than a day were looked at often enough.
        """
        since = (self.now() - _LOOKED_AT).timestamp() * _GENERATIONS_PER_SECOND
        for found in await self.characters.list(PREFIX):
            character_id = found.name.partition("/")[0]
            if found.name == manifest_name(character_id) and found.generation > since:
                try:
                    await self.store.read(character_id)
                except UnknownOwnCharacterError:
                    await withdraw(self.characters, character_id)

    async def _still_wants_recordings(self, character_id: str) -> bool:
        try:
            snapshot = await self.store.read(character_id)
        except UnknownOwnCharacterError:
            return False
        character = snapshot.character
        if character.status is Status.READY:
            return character.keeps_recordings and character.has_recordings
        return True


async def withdraw(characters: Bucket, character_id: str) -> None:
    """Remove a character: the manifest first, so that nobody begins to use it."""
    await characters.delete(manifest_name(character_id))
    await characters.delete_all(f"{character_id}/")
