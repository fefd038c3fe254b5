"""Answers that the emulator cannot be made to give, from a fake client."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self, cast

import pytest
from google.api_core import exceptions as google_errors
from google.auth.credentials import AnonymousCredentials

from shared.google import firestore
from shared.google.firestore import RenewableClient
from shared.google.own_characters import FirestoreOwnCharacters
from shared.google.voices import FirestoreVoices
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import Status

WHERE = "https://console.firebase.example/create_composite=1"


class RefusingClient:
    """Stands in for Firestore's client, its collection and its query, which always fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def collection_group(self, _name: str) -> Self:
        return self

    def collection(self, _name: str) -> Self:
        return self

    def where(self, **_terms: object) -> Self:
        return self

    def order_by(self, _field: str, **_terms: object) -> Self:
        return self

    def limit(self, _count: int) -> Self:
        return self

    async def get(self, **_terms: object) -> list[object]:
        raise self._error


async def search(error: Exception) -> None:
    voices = FirestoreVoices(cast("RenewableClient", RefusingClient(error)))
    await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)


async def test_before_its_index_is_built_a_search_says_what_is_missing_and_where() -> None:
    error = google_errors.FailedPrecondition(f"The query requires an index. See {WHERE}")
    with pytest.raises(StoreUnavailableError, match="sweep_shard, status and updated_at") as voices:
        await search(error)

    store = FirestoreOwnCharacters(cast("RenewableClient", RefusingClient(error)))
    with pytest.raises(StoreUnavailableError, match="index on owner and created_at") as characters:
        await store.find_by_owner("uid", limit=50)

    assert WHERE in str(voices.value)
    assert WHERE in str(characters.value)


@pytest.mark.parametrize("kind", [google_errors.Aborted, google_errors.Unknown])
async def test_a_search_that_is_not_answered_can_be_tried_again(
    kind: type[google_errors.GoogleAPICallError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firestore, "CALL_SECONDS", 0.3)
    with pytest.raises(StoreUnavailableError, match="did not answer"):
        await search(kind("Stream removed"))


class ResettingClient(RefusingClient):
    """Its first call ends with an error; the next one is answered."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self._errors = [error]
        self.renewals = 0

    def renew(self) -> None:
        self.renewals += 1

    async def get(self, **_terms: object) -> list[object]:
        if self._errors:
            raise self._errors.pop()
        return []


@pytest.mark.parametrize(
    ("kind", "renewals"),
    [
        (google_errors.Cancelled, 0),
        (google_errors.ServiceUnavailable, 0),
        (google_errors.Unknown, 0),
        (google_errors.DeadlineExceeded, 1),
    ],
)
async def test_a_call_is_repeated_after_a_reset_and_over_a_new_connection_without_an_answer(
    kind: type[google_errors.GoogleAPICallError], renewals: int
) -> None:
    client = ResettingClient(kind("Stream removed"))
    voices = FirestoreVoices(cast("RenewableClient", client))

    found = await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    assert (found.snapshots, client.renewals) == ([], renewals)


async def test_many_calls_that_fail_together_take_one_new_connection() -> None:
    times = iter([0.0, 0.0, 1.0, 10.0, 10.0])
    client = RenewableClient(
        project="p", credentials=AnonymousCredentials(), now=lambda: next(times)
    )
    opened = []
    for _ in range(3):
        opened.append(client._firestore_api)  # noqa: SLF001 - as the library's calls reach it
        client.renew()
    await client.aclose()

    assert opened[0] is not opened[1]
    assert opened[1] is opened[2]


async def test_a_forbidden_search_is_a_permanent_error() -> None:
    with pytest.raises(google_errors.PermissionDenied):
        await search(google_errors.PermissionDenied("no"))
