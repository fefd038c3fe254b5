"""What the emulator cannot be made to answer, answered by a client that the test plays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
from google.api_core import exceptions as google_errors

from shared.google.firestore_store import FirestoreVoices
from shared.ports.store import StoreUnavailableError
from shared.voice import Status

if TYPE_CHECKING:
    from google.api_core.retry_async import AsyncRetry
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


class Transport:
    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class OpenedApi:
    """Stands for what speaks to Firestore over a channel."""

    def __init__(self) -> None:
        self.transport = Transport()


class ClosableClient:
    """Stands for Firestore's client, whose channel is opened by its first call."""

    def __init__(self, opened: OpenedApi | None) -> None:
        self._firestore_api_internal = opened
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_store_that_was_used_closes_its_channel() -> None:
    opened = OpenedApi()

    await FirestoreVoices(cast("AsyncClient", ClosableClient(opened))).aclose()

    assert opened.transport.is_closed


async def test_a_store_that_was_never_used_opens_no_channel_to_close_it() -> None:
    client = ClosableClient(None)

    await FirestoreVoices(cast("AsyncClient", client)).aclose()

    assert client.is_closed


async def search(error: Exception) -> None:
    voices = FirestoreVoices(cast("AsyncClient", RefusingClient(error)))
    await voices.unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)


async def test_before_its_index_is_built_a_search_says_what_is_missing_and_where() -> None:
    error = google_errors.FailedPrecondition(f"The query requires an index. See {WHERE}")

    with pytest.raises(StoreUnavailableError, match="index on status and updated_at") as refused:
        await search(error)

    assert WHERE in str(refused.value)


@pytest.mark.parametrize(
    "kind",
    [
        google_errors.Aborted,
        google_errors.Cancelled,
        google_errors.InternalServerError,
        google_errors.ServiceUnavailable,
        google_errors.Unknown,
    ],
)
async def test_a_search_that_is_not_answered_can_be_tried_again(
    kind: type[google_errors.GoogleAPICallError],
) -> None:
    with pytest.raises(StoreUnavailableError, match="did not answer"):
        await search(kind("Stream removed"))


class ResettingClient(RefusingClient):
    """Its first call ends with an error, as its connection is reset; the next one is answered."""

    async def get(self, **terms: Any) -> list[object]:
        retry: AsyncRetry = terms["retry"]
        errors = [self._error]

        async def ask() -> list[object]:
            if errors:
                raise errors.pop()
            return []

        return await retry(ask)()


@pytest.mark.parametrize(
    "kind",
    [google_errors.Cancelled, google_errors.ServiceUnavailable, google_errors.Unknown],
)
async def test_a_call_is_repeated_after_a_reset_connection(
    kind: type[google_errors.GoogleAPICallError],
) -> None:
    voices = FirestoreVoices(cast("AsyncClient", ResettingClient(kind("Stream removed"))))

    found = await voices.unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    assert found.snapshots == []


async def test_a_forbidden_search_is_a_permanent_error() -> None:
    with pytest.raises(google_errors.PermissionDenied):
        await search(google_errors.PermissionDenied("no"))
