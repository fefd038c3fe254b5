"""What a client without the services' permissions can do with the documents, over REST.

The browser tests try the same with Firestore's own SDK.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from infra.local.configuration.names import PROJECT_ID
from shared.characters.own.store import document_path as document_path_of_own
from shared.characters.own.store import state_path, to_state
from shared.voices.store import document_path
from shared.voices.voice import new_voice_id
from tests.support.own_character_contract import a_begun
from tests.support.voices import a_waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.google.firestore import RenewableClient
    from shared.google.voices import FirestoreVoices

pytestmark = pytest.mark.emulators

FIELDS = {"fields": {"status": {"stringValue": "done"}, "owner": {"nullValue": None}}}
QUERY = {"from": [{"collectionId": "voices", "allDescendants": True}], "limit": 1}


def signed_in(uid: str) -> dict[str, str]:
    """Return the header of a signed-in visitor; the emulator takes tokens without a signature."""

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {
        "iss": f"https://securetoken.google.com/{PROJECT_ID}",
        "aud": PROJECT_ID,
        "sub": uid,
        "user_id": uid,
        "iat": 0,
        "auth_time": 0,
        "exp": 4_000_000_000,
    }
    token = f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}."
    return {"Authorization": f"Bearer {token}"}


VISITORS = {"nobody": {}, "somebody": signed_in("jun")}


@pytest_asyncio.fixture
async def http(firestore_emulator: str) -> AsyncIterator[httpx.AsyncClient]:
    base = f"http://{firestore_emulator}/v1/projects/{PROJECT_ID}/databases/(default)/documents"
    async with httpx.AsyncClient(base_url=base, timeout=30) as opened:
        yield opened


async def add(store: FirestoreVoices, owner: str | None = None) -> str:
    voice = a_waiting(owner=owner)
    await store.create(voice)
    return f"/{document_path(voice.voice_id)}"


@pytest.mark.parametrize("visitor", VISITORS)
async def test_a_client_with_the_id_may_read_a_voice_without_an_owner(
    store: FirestoreVoices, http: httpx.AsyncClient, visitor: str
) -> None:
    answer = await http.get(await add(store), headers=VISITORS[visitor])

    assert answer.status_code == 200
    assert answer.json()["fields"]["status"]["stringValue"] == "waiting"


async def test_only_the_owner_reads_an_owned_voice(
    store: FirestoreVoices, http: httpx.AsyncClient
) -> None:
    path = await add(store, owner="mika")

    strangers = [await http.get(path, headers=headers) for headers in VISITORS.values()]
    owner = await http.get(path, headers=signed_in("mika"))

    assert [answer.status_code for answer in strangers] == [403, 403]
    assert owner.status_code == 200


async def test_only_a_signed_in_owner_reads_how_far_their_character_is(
    client: RenewableClient, http: httpx.AsyncClient
) -> None:
    character = a_begun()
    path = f"/{state_path(character.character_id)}"
    await client.document(path[1:]).set(to_state(character))

    strangers = [await http.get(path, headers=headers) for headers in VISITORS.values()]
    owner = await http.get(path, headers=signed_in(str(character.owner)))

    assert [answer.status_code for answer in strangers] == [403, 403]
    assert owner.json()["fields"]["status"]["stringValue"] == "collecting"


async def test_whoever_knows_the_id_reads_how_far_a_character_without_an_owner_is(
    client: RenewableClient, http: httpx.AsyncClient
) -> None:
    character = replace(a_begun(), owner=None)
    path = f"/{state_path(character.character_id)}"
    await client.document(path[1:]).set(to_state(character))

    assert (await http.get(path)).status_code == 200
    assert (await http.patch(path, json=FIELDS)).status_code == 403
    assert (await http.get(f"/{document_path_of_own(character.character_id)}")).status_code == 403


@pytest.mark.parametrize("visitor", ["nobody", "somebody", "mika"])
async def test_voices_cannot_be_listed_or_searched(
    store: FirestoreVoices, http: httpx.AsyncClient, visitor: str
) -> None:
    collection = (await add(store, owner="mika")).rpartition("/")[0]
    headers = VISITORS.get(visitor, signed_in(visitor))

    listing = await http.get(collection, headers=headers)
    query = f"{str(http.base_url).rstrip('/')}:runQuery"
    search = await http.post(query, json={"structuredQuery": QUERY}, headers=headers)

    assert (listing.status_code, search.status_code) == (403, 403)


@pytest.mark.parametrize("owner", [None, "mika"])
async def test_even_the_owner_cannot_write_a_voice(
    store: FirestoreVoices, http: httpx.AsyncClient, owner: str | None
) -> None:
    path = await add(store, owner=owner)
    headers = signed_in(owner) if owner else {}

    answers = [
        await http.patch(path, json=FIELDS, headers=headers),
        await http.delete(path, headers=headers),
        await http.patch(f"/{document_path(new_voice_id())}", json=FIELDS, headers=headers),
        await http.patch(f"{path}/below/one", json=FIELDS, headers=headers),
        await http.patch("/elsewhere/one", json=FIELDS, headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [403] * 5
    assert (await store.read(path.rpartition("/")[2])).voice.owner == owner
