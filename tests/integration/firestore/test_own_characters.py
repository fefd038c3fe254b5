from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import pytest_asyncio

from shared.google.firestore.client import RenewableClient
from shared.google.firestore.own_characters import FirestoreOwnCharacters
from shared.own_characters.documents import document_path
from tests.support.own_character_contract import (
    OwnCharacterStoreContract,
    a_begun,
    a_cleaned,
    kept,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.emulators


@pytest_asyncio.fixture
async def store(
    firestore_emulator: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FirestoreOwnCharacters]:
    """A store in a project of its own, because a day's number is counted for all of a project."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    opened = FirestoreOwnCharacters(RenewableClient(project=f"demo-{uuid4().hex[:12]}"))
    yield opened
    await opened.aclose()


class TestFirestoreOwnCharacters(OwnCharacterStoreContract):
    """The fixture `store` is the module's."""


async def test_firestore_deletes_an_unfinished_character_a_day_after_its_time_is_over(
    store: FirestoreOwnCharacters,
) -> None:
    begun, ready = a_begun(), a_cleaned()
    await kept(store, begun, ready)

    async def field(character_id: str) -> object:
        document = await store._client.document(document_path(character_id)).get()  # noqa: SLF001
        return (document.to_dict() or {}).get("delete_at")

    assert begun.expire_at is not None
    assert await field(begun.character_id) == begun.expire_at + timedelta(days=1)
    assert await field(ready.character_id) is None
