"""Answers that the emulator cannot be made to give, from a fake client."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast

import grpc  # type: ignore[import-untyped]  # it comes without types
import pytest
from google.api_core import exceptions as google_errors
from google.api_core import grpc_helpers
from google.auth.credentials import AnonymousCredentials

from shared.google import pubsub
from shared.google.firestore import RenewableClient
from shared.google.own_characters import FirestoreOwnCharacters
from shared.google.storage import RenewingAdapter
from shared.google.voices import FirestoreVoices
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import Status

if TYPE_CHECKING:
    from collections.abc import Callable


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


class Transport:
    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class OpenedApi:
    """Stands in for the transport with a channel to Firestore."""

    def __init__(self) -> None:
        self.transport = Transport()


class ClosableClient(RenewableClient):
    """Firestore's client, which opens its channel at the first call, with another channel."""

    def __init__(self, opened: OpenedApi | None) -> None:
        super().__init__(project="p", credentials=AnonymousCredentials())
        self._firestore_api_internal = opened
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_store_that_was_used_closes_its_channel() -> None:
    opened = OpenedApi()

    await FirestoreVoices(ClosableClient(opened)).aclose()

    assert opened.transport.is_closed


async def test_a_store_that_was_never_used_opens_no_channel_to_close_it() -> None:
    client = ClosableClient(None)

    await FirestoreVoices(client).aclose()

    assert client.is_closed


async def search(error: Exception) -> None:
    voices = FirestoreVoices(cast("RenewableClient", RefusingClient(error)))
    await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)


async def test_before_its_index_is_built_a_search_says_what_is_missing_and_where() -> None:
    error = google_errors.FailedPrecondition(f"The query requires an index. See {WHERE}")

    with pytest.raises(
        StoreUnavailableError, match="index on sweep_shard, status and updated_at"
    ) as refused:
        await search(error)

    assert WHERE in str(refused.value)


async def test_so_does_the_search_for_the_characters_of_an_account() -> None:
    error = google_errors.FailedPrecondition(f"The query requires an index. See {WHERE}")
    store = FirestoreOwnCharacters(cast("RenewableClient", RefusingClient(error)))

    with pytest.raises(StoreUnavailableError, match="index on owner and created_at") as refused:
        await store.find_by_owner("uid", limit=50)

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
    "kind",
    [google_errors.Cancelled, google_errors.ServiceUnavailable, google_errors.Unknown],
)
async def test_a_call_is_repeated_after_a_reset_connection(
    kind: type[google_errors.GoogleAPICallError],
) -> None:
    voices = FirestoreVoices(cast("RenewableClient", ResettingClient(kind("Stream removed"))))

    found = await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    assert found.snapshots == []


async def test_a_call_that_is_not_answered_is_repeated_over_a_new_connection() -> None:
    client = ResettingClient(google_errors.DeadlineExceeded("nothing came"))
    voices = FirestoreVoices(cast("RenewableClient", client))

    await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    assert client.renewals == 1


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


LONGEST_MILLISECONDS = 60_000
"""Firestore and Pub/Sub end connections that are pinged more often than twice in a minute."""


class OpenedError(Exception):
    """A channel would have been opened."""


def opening(seen: dict[str, Any]) -> Callable[..., Any]:
    def open_channel(*_arguments: Any, options: Any = (), **_more: Any) -> Any:
        seen.update(options)
        raise OpenedError

    return open_channel


def test_a_connection_to_cloud_storage_is_probed_by_the_system() -> None:
    options = RenewingAdapter().poolmanager.connection_pool_kw["socket_options"]
    with socket.socket() as connection:
        for option in options:
            connection.setsockopt(*option)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, count = (
            connection.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
    assert idle + interval * count <= 60


async def test_a_connection_to_firestore_is_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setattr(grpc.aio, "insecure_channel", opening(seen))
    client = RenewableClient(project="p", credentials=AnonymousCredentials())
    with pytest.raises(OpenedError):
        await client.document("voices/a").get()
    assert 30_000 <= seen["grpc.keepalive_time_ms"] <= LONGEST_MILLISECONDS


def test_a_connection_to_pubsub_is_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(grpc_helpers, "create_channel", opening(seen))
    monkeypatch.setattr("google.auth.default", lambda **_: (AnonymousCredentials(), "p"))
    with pytest.raises(OpenedError):
        pubsub.open_publisher_client()
    assert 30_000 <= seen["grpc.keepalive_time_ms"] <= LONGEST_MILLISECONDS
    assert seen["grpc.use_local_subchannel_pool"] == 1
