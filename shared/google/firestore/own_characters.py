"""Firestore: the adapter that implements `shared.own_characters.store.OwnCharacterStore`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from google.api_core import exceptions as google_errors
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.transforms import DELETE_FIELD

from shared.google.firestore.calls import Calls, moment_of, passing_errors
from shared.own_characters.documents import (
    BEGUN,
    COLLECTION,
    document_path,
    from_document,
    state_path,
    to_document,
    to_state,
)
from shared.own_characters.store import OwnCharacterSnapshot, UnknownOwnCharacterError
from shared.ports.store import COMPETITION_LIMIT, ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.cloud.firestore_v1 import AsyncDocumentReference, DocumentSnapshot

    from shared.google.firestore.client import RenewableClient
    from shared.own_characters.own_character import OwnCharacter

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

    Args:
        client: the Firestore client; the store closes it.
        now: the clock for what is due; a lease is still only taken by the store's time.
    """

    def __init__(
        self,
        client: RenewableClient,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._call = Calls(client).call
        self._now = now

    async def create(self, character: OwnCharacter, *, most_per_day: int) -> bool:
        """Write a new document; False if a day's number is reached.

        The times of the last day are in one document, which is written together with the
        character's, if it is still as it was read.

        Raises:
            ConflictError: others began theirs first `COMPETITION_LIMIT` times in a row.
        """
        return await self._take_place(character.created_at, most_per_day, character)

    async def take_place(self, *, most_per_day: int) -> bool:
        """Count a further training; False if a day's number is reached; raises as `create`."""
        return await self._take_place(self._now(), most_per_day)

    async def _take_place(
        self, moment: datetime, most_per_day: int, character: OwnCharacter | None = None
    ) -> bool:
        for _ in range(COMPETITION_LIMIT):
            with passing_errors():
                begun = await self._call(self._client.document(BEGUN).get)
                since = self._now() - _DAY
                known = (begun.to_dict() or {}).get("times", []) if begun.exists else []
                times = [each for each in known if each > since]
                if len(times) >= most_per_day:
                    return False
                try:
                    await self._begin(character, begun, [*times, moment])
                except _CHANGED:
                    # Its own first try may have been the one that was written.
                    if character is not None and await self._is_there(character):
                        return True
                    continue
            return True
        raise ConflictError(f"others began theirs first {COMPETITION_LIMIT} times in a row")

    async def _begin(
        self,
        character: OwnCharacter | None,
        begun: DocumentSnapshot[Any],
        times: Sequence[datetime],
    ) -> None:
        batch = self._client.batch()
        limits = self._client.document(BEGUN)
        if begun.exists:
            option = self._client.write_option(last_update_time=begun.update_time)
            batch.update(limits, {"times": times}, option=option)
        else:
            batch.create(limits, {"times": times})
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
        """Read a document; `UnknownOwnCharacterError` if there is none."""
        with passing_errors():
            document = await self._call(self._reference(character_id).get)
        if not document.exists:
            raise UnknownOwnCharacterError(character_id)
        return _snapshot(document)

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        """Write over the state of `snapshot`; `ConflictError` if that is gone."""
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
        """Delete a document, if there is one."""
        batch = self._client.batch()
        batch.delete(self._reference(character_id))
        batch.delete(self._state(character_id))
        with passing_errors():
            await self._call(batch.commit)

    async def waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters that a trainer may take, those that wait longest first."""
        return await self._due("train_at", limit)

    async def to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read characters whose recordings are to be deleted."""
        return await self._due("clean_at", limit)

    async def public(self, limit: int) -> Sequence[OwnCharacter]:
        """Read the characters that their owners show to everybody, those that changed first."""
        return [each.character for each in await self._due("public_at", limit)]

    async def aclose(self) -> None:
        """Close the client's connection."""
        await self._client.aclose()

    async def _due(self, field: str, limit: int) -> Sequence[OwnCharacterSnapshot]:
        """Read the characters whose moment in a field, which has an index, has come."""
        query = (
            self._client.collection(COLLECTION)
            .where(filter=FieldFilter(field, "<=", self._now()))
            .order_by(field)
            .limit(limit)
        )
        with passing_errors():
            return [_snapshot(document) for document in await self._call(query.get)]

    def _reference(self, character_id: str) -> AsyncDocumentReference:
        return self._client.document(document_path(character_id))

    def _state(self, character_id: str) -> AsyncDocumentReference:
        return self._client.document(state_path(character_id))


def _snapshot(document: DocumentSnapshot[Any]) -> OwnCharacterSnapshot:
    character = from_document(document.id, document.to_dict() or {})
    return OwnCharacterSnapshot(character, document.update_time, moment_of(document.read_time))
