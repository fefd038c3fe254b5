"""The objects of an owner's recordings for a character, and their deletion."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from shared.characters.bucket import PREFIX, manifest_name
from shared.characters.own import own_character as own
from shared.characters.own.own_character import OwnCharacterStatus
from shared.characters.own.store import UnknownOwnCharacterError, change_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.characters.own.store import OwnCharacterStore
    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts


MAX_RECORDINGS: Final = 200
MAX_RECORDING_BYTES: Final = 4_000_000
MAX_TOTAL_BYTES: Final = 120_000_000


class Kind(StrEnum):
    SPEECH = "speech"
    CONSENT = "consent"


def recordings_prefix(character_id: str, kind: Kind | None = None) -> str:
    """Return the prefix of the names of a character's recordings: all, or of one kind."""
    return f"{character_id}/" if kind is None else f"{character_id}/{kind.value}/"


def progress_prefix(character_id: str) -> str:
    """Return the prefix of a training's progress, which is deleted with the recordings."""
    return f"{character_id}/kept/"


def recordings_among(objects: Iterable[ObjectFacts]) -> Sequence[ObjectFacts]:
    """Return the objects that an owner has uploaded; a training saves others beside them."""
    return [each for each in objects if each.name.split("/")[1] in set(Kind)]


def new_recording_name(character_id: str, kind: Kind) -> str:
    """Draw a name that nobody can guess, so that it is never used twice."""
    return f"{recordings_prefix(character_id, kind)}{uuid4().hex}"


def recording_name(character_id: str, kind: Kind, recording_id: str) -> str:
    return f"{recordings_prefix(character_id, kind)}{recording_id}"


def recordings_over_limits(recordings: Iterable[ObjectFacts]) -> Sequence[ObjectFacts]:
    """Return the newest of a character's recordings if they are far too many.

    The api counts uploads before it signs an address, so many addresses that are used at once bring
    more than it allows. An honest owner never has twice as much.
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
    """Return the prefix of the objects of a character's card, which are for its owner alone."""
    return f"{character_id}/card/"


def own_sounds_prefix(character_id: str) -> str:
    """Return the prefix of those sounds that are parts of the owner's recordings."""
    return f"{card_prefix(character_id)}own-"


_CLEANED_AT_ONCE: Final = 20
_LOOKED_AT: Final = timedelta(days=1)
_GENERATIONS_PER_SECOND: Final = 1_000_000
"""Cloud Storage's generations are the microseconds at which an object was written."""


@dataclass(frozen=True, slots=True)
class OwnCharacterCleaner:
    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def clean(self) -> None:
        """Delete the recordings of ready characters, and all of expired ones.

        An upload address works for some minutes after the character's end. So recordings that
        arrive late are deleted, too, and those beyond what the api allows.
        """
        for snapshot in await self.store.find_to_clean(limit=_CLEANED_AT_ONCE):
            character_id = snapshot.character.character_id
            await self.recordings.delete_all(recordings_prefix(character_id))
            await self.characters.delete_all(own_sounds_prefix(character_id))
            if snapshot.character.status is OwnCharacterStatus.READY:
                with suppress(UnknownOwnCharacterError):
                    await change_own(self.store, character_id, own.without_recordings)
            else:
                # A trainer may have been killed after it had published what it had made.
                await withdraw_character(self.characters, character_id)
                await self.store.delete(character_id)
        found = await self.recordings.list()
        for character_id, objects in groupby(found, lambda each: each.name.split("/")[0]):
            all_of_it = list(objects)
            kept = await self._still_wants_recordings(character_id)
            for each in recordings_over_limits(recordings_among(all_of_it)) if kept else all_of_it:
                await self.recordings.delete(each.name, each.generation)
        await self.withdraw_orphans()

    async def withdraw_orphans(self) -> None:
        """Remove bundles whose characters were deleted during publication.

        A trainer that finds the document gone does that itself, unless it is killed before. Bundles
        older than a day were checked often enough.
        """
        since = (self.now() - _LOOKED_AT).timestamp() * _GENERATIONS_PER_SECOND
        for found in await self.characters.list(PREFIX):
            character_id = found.name.partition("/")[0]
            if found.name == manifest_name(character_id) and found.generation > since:
                try:
                    await self.store.read(character_id)
                except UnknownOwnCharacterError:
                    await withdraw_character(self.characters, character_id)

    async def _still_wants_recordings(self, character_id: str) -> bool:
        try:
            snapshot = await self.store.read(character_id)
        except UnknownOwnCharacterError:
            return False
        character = snapshot.character
        if character.status is OwnCharacterStatus.READY:
            return character.keeps_recordings and character.has_recordings
        return True


async def withdraw_character(characters: Bucket, character_id: str) -> None:
    """Remove a character: the manifest first, so that nobody begins to use it."""
    await characters.delete(manifest_name(character_id))
    await characters.delete_all(f"{character_id}/")
