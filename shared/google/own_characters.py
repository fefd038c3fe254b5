"""The `OwnCharacterStore` in Firestore."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from google.api_core import exceptions as google_errors
from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter
from google.cloud.firestore_v1.transforms import DELETE_FIELD

from shared.characters.own.store import (
    BEGUN,
    COLLECTION,
    CharacterStart,
    OwnCharacterSnapshot,
    UnknownOwnCharacterError,
    document_path,
    from_document,
    starts_since,
    state_path,
    to_document,
    to_state,
)
from shared.google.firestore import Calls, missing_index, moment_of, passing_errors
from shared.voices.store import COMPETITION_LIMIT, ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.cloud.firestore_v1 import AsyncDocumentReference, DocumentSnapshot

    from shared.characters.own.own_character import OwnCharacter
    from shared.characters.own.store import DayLimits
    from shared.google.firestore import RenewableClient

_DAY: Final = timedelta(days=1)
_DERIVED: Final = ("train_at", "clean_at", "public_at", "delete_at")
_CHANGED: Final = (
    google_errors.Aborted,
    google_errors.AlreadyExists,
    google_errors.FailedPrecondition,
    google_errors.NotFound,
)


class FirestoreOwnCharacters:
    """An `OwnCharacterStore` in Firestore.

    The starts of the last day are in one document. It is written together with the character's, if
    it is still as it was read; `ConflictError` if it has changed `COMPETITION_LIMIT` times in a
    row.
    """

    def __init__(self, client: RenewableClient) -> None:
        self._client = client
        self._call = Calls(client).call

    async def create(self, character: OwnCharacter, *, limits: DayLimits, by: str) -> None:
        await self._take_place(CharacterStart(character.created_at, by), limits, character)

    async def take_place(self, *, limits: DayLimits, by: str) -> None:
        await self._take_place(CharacterStart(datetime.now(UTC), by), limits)

    async def _take_place(
        self, place: CharacterStart, limits: DayLimits, character: OwnCharacter | None = None
    ) -> None:
        for _ in range(COMPETITION_LIMIT):
            with passing_errors():
                known = await self._call(self._client.document(BEGUN).get)
                begun = starts_since(known.to_dict() or {}, datetime.now(UTC) - _DAY)
                limits.require_place(begun, place.by)
                try:
                    await self._begin(character, known, [*begun, place])
                except _CHANGED:
                    # Its own first try may have been the one that was written.
                    if character is not None and await self._is_there(character):
                        return
                    continue
            return
        raise ConflictError(f"others began theirs first {COMPETITION_LIMIT} times in a row")

    async def _begin(
        self,
        character: OwnCharacter | None,
        known: DocumentSnapshot[Any],
        begun: Sequence[CharacterStart],
    ) -> None:
        batch = self._client.batch()
        limits, content = self._client.document(BEGUN), {"begun": [asdict(each) for each in begun]}
        if known.exists:
            option = self._client.write_option(last_update_time=known.update_time)
            batch.update(limits, content, option=option)
        else:
            batch.create(limits, content)
        if character is not None:
            batch.create(self._reference(character.character_id), to_document(character))
            batch.set(self._state(character.character_id), to_state(character))
        await self._call(batch.commit)

    async def _is_there(self, character: OwnCharacter) -> bool:
        try:
            found = (await self.read(character.character_id)).character
        except UnknownOwnCharacterError:
            return False
        return found.key_sha256 == character.key_sha256

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        with passing_errors():
            document = await self._call(self._reference(character_id).get)
        if not document.exists:
            raise UnknownOwnCharacterError(character_id)
        return snapshot_of(document)

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        option = self._client.write_option(last_update_time=snapshot.revision)
        # An update keeps the fields that it does not name.
        document = dict.fromkeys(_DERIVED, DELETE_FIELD) | to_document(character)
        batch = self._client.batch()
        batch.update(self._reference(character.character_id), document, option=option)
        batch.set(self._state(character.character_id), to_state(character))
        with passing_errors():
            try:
                written, _ = await self._call(batch.commit)
            except _CHANGED as error:
                name = character.character_id
                raise ConflictError(f"character {name} was changed by another") from error
        return OwnCharacterSnapshot(character, written.update_time, moment_of(written.update_time))

    async def delete(self, character_id: str) -> None:
        batch = self._client.batch()
        batch.delete(self._reference(character_id))
        batch.delete(self._state(character_id))
        with passing_errors():
            await self._call(batch.commit)

    async def find_waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return await self._read("train_at", "<=", limit)

    async def find_in_training(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return await self._read("train_at", ">", limit)

    async def find_to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return await self._read("clean_at", "<=", limit)

    async def find_public(self, limit: int) -> Sequence[OwnCharacter]:
        return [each.character for each in await self._read("public_at", "<=", limit)]

    async def find_by_owner(self, owner: str, limit: int) -> Sequence[OwnCharacter]:
        query = (
            self._client.collection(COLLECTION)
            .where(filter=FieldFilter("owner", "==", owner))
            .order_by("created_at", direction=BaseQuery.DESCENDING)
            .limit(limit)
        )
        with passing_errors(), missing_index(f"owner and created_at of {COLLECTION}"):
            found = await self._call(query.get)
        return [snapshot_of(document).character for document in found]

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _read(self, field: str, when: str, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read the characters whose moment in an indexed field has come, or has not."""
        query = (
            self._client.collection(COLLECTION)
            .where(filter=FieldFilter(field, when, datetime.now(UTC)))
            .order_by(field)
            .limit(limit)
        )
        with passing_errors():
            return [snapshot_of(document) for document in await self._call(query.get)]

    def _reference(self, character_id: str) -> AsyncDocumentReference:
        return self._client.document(document_path(character_id))

    def _state(self, character_id: str) -> AsyncDocumentReference:
        return self._client.document(state_path(character_id))


def snapshot_of(document: DocumentSnapshot[Any]) -> OwnCharacterSnapshot:
    character = from_document(document.id, document.to_dict() or {})
    return OwnCharacterSnapshot(character, document.update_time, moment_of(document.read_time))
