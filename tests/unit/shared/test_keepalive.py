"""Connections to Google's services are probed, so that a dead one is noticed though nobody asks."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # it comes without types
import pytest
from google.api_core import grpc_helpers
from google.auth.credentials import AnonymousCredentials

from shared.google import pubsub
from shared.google.firestore.client import RenewableClient
from shared.google.storage_connections import RenewingAdapter

if TYPE_CHECKING:
    from collections.abc import Callable

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
