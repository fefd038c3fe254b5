from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.firestore_store import FirestoreVoices
from tests.support.store_contract import VoiceStoreContract
from tests.support.voices import a_waiting

if TYPE_CHECKING:
    from google.cloud.firestore_v1 import AsyncClient

pytestmark = pytest.mark.emulators


class TestFirestoreVoices(VoiceStoreContract):
    """The fixture `store` is the folder's."""


async def test_a_store_without_a_listener_cannot_watch(client: AsyncClient) -> None:
    with pytest.raises(RuntimeError, match="without a DocumentListener"):
        FirestoreVoices(client).watch(a_waiting().voice_id)


async def test_the_document_has_native_times_and_lies_where_clients_listen(
    store: FirestoreVoices, client: AsyncClient
) -> None:
    voice = a_waiting(owner="uid")
    await store.create(voice)

    document = (await client.document(f"voices/{voice.voice_id}").get()).to_dict()

    assert document is not None
    assert (document["created_at"], document["expire_at"]) == (voice.created_at, voice.expire_at)
    assert (document["status"], document["owner"], document["input"]) == ("waiting", "uid", None)
