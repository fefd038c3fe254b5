from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from shared.characters.own import own_character as own
from shared.characters.own.store import document_path, state_path
from shared.google.firestore import RenewableClient
from shared.google.own_characters import FirestoreOwnCharacters
from tests.support.own_character_contract import (
    NOW,
    OwnCharacterStoreContract,
    a_begun,
    a_cleaned,
    a_reported,
    kept,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.emulators


@pytest.fixture
def client(firestore_emulator: str, monkeypatch: pytest.MonkeyPatch) -> RenewableClient:
    """A client of a project of its own, because a day's number is counted for all of a project."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    return RenewableClient(project=f"demo-{uuid4().hex[:12]}")


@pytest_asyncio.fixture
async def store(client: RenewableClient) -> AsyncIterator[FirestoreOwnCharacters]:
    opened = FirestoreOwnCharacters(client)
    yield opened
    await opened.aclose()


class TestFirestoreOwnCharacters(OwnCharacterStoreContract):
    """The fixture `store` is the module's."""


async def read(client: RenewableClient, path: str) -> dict[str, Any] | None:
    return (await client.document(path).get()).to_dict()


async def test_clients_may_read_how_far_a_character_is_and_nothing_of_its_owner(
    store: FirestoreOwnCharacters, client: RenewableClient, firestore_emulator: str
) -> None:
    reported = a_reported()
    await kept(store, reported)
    root = f"http://{firestore_emulator}/v1/projects/{client.project}"
    state = await read(client, state_path(reported.character_id))

    async with httpx.AsyncClient(base_url=f"{root}/databases/(default)/documents") as http:
        owner = {"Authorization": "Bearer owner"}  # passes the emulator's rules, as IAM does
        private = await http.get(f"/{document_path(reported.character_id)}")
        listed = await http.get("/own_character_states")
        assert (await http.get("/own_character_states", headers=owner)).status_code == 200

    assert state is not None
    assert (state["status"], state["stage"], state["share"]) == (
        "training",
        "learning the voice",
        0.25,
    )
    assert not {"name", "consent", "sentence", "key_sha256"} & set(state)
    assert (private.status_code, listed.status_code) == (403, 403)


async def test_the_state_follows_the_character_to_its_deletion(
    store: FirestoreOwnCharacters, client: RenewableClient
) -> None:
    begun = a_begun()
    path = state_path(begun.character_id)
    await kept(store, begun)
    await store.replace(await store.read(begun.character_id), own.queue(begun, NOW))
    assert ((await read(client, path)) or {})["status"] == "queued"

    await store.delete(begun.character_id)

    assert await read(client, path) is None


async def test_firestore_deletes_an_unfinished_character_a_day_after_its_time_is_over(
    store: FirestoreOwnCharacters, client: RenewableClient
) -> None:
    begun, ready = a_begun(), a_cleaned()
    await kept(store, begun, ready)

    async def field(character_id: str) -> object:
        return ((await read(client, document_path(character_id))) or {}).get("delete_at")

    assert begun.expire_at is not None
    assert await field(begun.character_id) == begun.expire_at + timedelta(days=1)
    assert await field(ready.character_id) is None
