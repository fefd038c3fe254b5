"""What the emulator cannot be made to answer, answered by a client that the test plays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self, cast

import pytest
from google.api_core import exceptions as google_errors

from shared.firestore_store import FirestoreVoices
from shared.store import StoreUnavailableError
from shared.voice import Status

if TYPE_CHECKING:
    from google.cloud.firestore_v1 import AsyncClient

WHERE = "https://console.firebase.example/create_composite=1"


class RefusingClient:
    """Stands for Firestore's client, its collection and its query, which cannot be answered."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def collection(self, _name: str) -> Self:
        return self

    def where(self, **_terms: object) -> Self:
        return self

    def order_by(self, _field: str) -> Self:
        return self

    def limit(self, _count: int) -> Self:
        return self

    async def get(self, **_terms: object) -> list[object]:
        raise self._error


async def search(error: Exception) -> None:
    voices = FirestoreVoices(cast("AsyncClient", RefusingClient(error)))
    await voices.unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)


async def test_before_its_index_is_built_a_search_says_what_is_missing_and_where() -> None:
    error = google_errors.FailedPrecondition(f"The query requires an index. See {WHERE}")

    with pytest.raises(StoreUnavailableError, match="index on status and updated_at") as refused:
        await search(error)

    assert WHERE in str(refused.value)


async def test_a_search_that_is_not_answered_can_be_tried_again() -> None:
    with pytest.raises(StoreUnavailableError, match="did not answer"):
        await search(google_errors.ServiceUnavailable("away"))


async def test_a_search_that_is_not_allowed_is_no_passing_fault() -> None:
    with pytest.raises(google_errors.PermissionDenied):
        await search(google_errors.PermissionDenied("no"))
