"""The `VoiceStore` in Firestore.

`replace` sends the document's update time as a precondition, so Firestore itself does the
compare-and-set, without the second round trip of a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from google.api_core import exceptions as google_errors
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.field_path import FieldPath
from google.cloud.firestore_v1.transforms import DELETE_FIELD

from shared.google.firestore import Calls, missing_index, moment_of, passing_errors
from shared.voices.store import (
    COLLECTION,
    SHARDS,
    ConflictError,
    FoundVoices,
    Snapshot,
    UnknownVoiceError,
    UnreadableVoiceError,
    VoiceExistsError,
    document_path,
    from_document,
    to_document,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from google.cloud.firestore_v1 import (
        AsyncDocumentReference,
        DocumentSnapshot,
    )

    from shared.google.firestore import RenewableClient
    from shared.google.listener import DocumentListener
    from shared.voices.voice import Status, Voice


_SWEEP_INDEX: Final = f"sweep_shard, status and updated_at of all collections {COLLECTION}"


class FirestoreVoices:
    """A `shared.voices.store.VoiceStore` in Firestore; without a listener it can't watch."""

    def __init__(self, client: RenewableClient, listener: DocumentListener | None = None) -> None:
        self._client = client
        self._listener = listener
        self._call = Calls(client).call

    async def create(self, voice: Voice) -> None:
        with passing_errors():
            try:
                await self._call(self._reference(voice.voice_id).create, to_document(voice))
            except google_errors.AlreadyExists as error:
                # An earlier try may have written it, whose answer was lost.
                if (await self.read(voice.voice_id)).voice != voice:
                    raise VoiceExistsError(f"there is a voice {voice.voice_id} already") from error

    async def read(self, voice_id: str) -> Snapshot:
        with passing_errors():
            document = await self._call(self._reference(voice_id).get)
        if not document.exists:
            raise UnknownVoiceError(voice_id)
        return snapshot_of(document)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        option = self._client.write_option(last_update_time=snapshot.revision)
        with passing_errors():
            try:
                # An update keeps the fields that it does not name.
                document = {"sweep_shard": DELETE_FIELD} | to_document(voice)
                update = self._reference(voice.voice_id).update
                written = await self._call(update, document, option=option)
            except (
                google_errors.FailedPrecondition,
                google_errors.NotFound,
                google_errors.Aborted,
            ) as error:
                raise ConflictError(f"voice {voice.voice_id} was changed by another") from error
        return Snapshot(voice, written.update_time, written.update_time)

    async def delete(self, voice_id: str) -> None:
        with passing_errors():
            await self._call(self._reference(voice_id).delete)

    async def find_unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> FoundVoices:
        """Query the index of `sweep_shard`, `status` and `updated_at`, all ascending."""
        query = (
            self._client.collection_group(COLLECTION)
            .where(filter=FieldFilter("sweep_shard", "in", list(range(SHARDS))))
            .where(filter=FieldFilter("status", "==", status.value))
            .where(filter=FieldFilter("updated_at", "<", since))
            .order_by("updated_at")
            .limit(limit)
        )
        if after is not None:
            # Firestore adds this order anyway, but a cursor needs it written down.
            query = query.order_by(FieldPath.document_id()).start_after(cast("list[Any]", after))
        with passing_errors(), missing_index(_SWEEP_INDEX):
            documents = await self._call(query.get)
        snapshots, unreadable = [], []
        for document in documents:
            try:
                snapshots.append(snapshot_of(document))
            except UnreadableVoiceError as error:
                unreadable.append(error)
        # A page that is not full is the last one.
        end = None
        if len(documents) == limit:
            end = [documents[-1].get("updated_at"), documents[-1].reference]
        return FoundVoices(snapshots, unreadable, end)

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        if self._listener is None:
            raise RuntimeError("this store was opened without a DocumentListener and cannot watch")
        return self._listener.watch(voice_id)

    async def aclose(self) -> None:
        if self._listener is not None:
            await self._listener.aclose()
        await self._client.aclose()

    def _reference(self, voice_id: str) -> AsyncDocumentReference:
        return self._client.document(document_path(voice_id))


def snapshot_of(document: DocumentSnapshot[Any]) -> Snapshot:
    try:
        voice = from_document(document.id, document.to_dict() or {})
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableVoiceError(document.id, error) from error
    return Snapshot(voice, moment_of(document.update_time), moment_of(document.read_time))
