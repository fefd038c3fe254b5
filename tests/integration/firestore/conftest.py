from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from infra.local.configuration.names import PROJECT_ID
from shared.google.firestore import RenewableClient
from shared.google.listener import DocumentListener
from shared.google.voices import FirestoreVoices
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TARGETS_PER_STREAM = 2


@pytest.fixture
def client(firestore_emulator: str, monkeypatch: pytest.MonkeyPatch) -> RenewableClient:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    return RenewableClient(project=PROJECT_ID)


@pytest.fixture
def listener(client: RenewableClient) -> DocumentListener:
    return DocumentListener(client, targets_per_stream=TARGETS_PER_STREAM)


@pytest_asyncio.fixture
async def store(
    client: RenewableClient, listener: DocumentListener
) -> AsyncIterator[FirestoreVoices]:
    opened = FirestoreVoices(client, listener)
    yield opened
    await opened.aclose()


@pytest_asyncio.fixture
async def proxy(firestore_emulator: str) -> AsyncIterator[Proxy]:
    async with Proxy(firestore_emulator) as running:
        yield running


@pytest_asyncio.fixture
async def store_behind_proxy(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FirestoreVoices]:
    """A store whose connection can be cut."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", proxy.address)
    client = RenewableClient(project=PROJECT_ID)
    opened = FirestoreVoices(client, DocumentListener(client, targets_per_stream=100))
    yield opened
    await opened.aclose()
