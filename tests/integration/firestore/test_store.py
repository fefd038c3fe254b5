from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.voices.store import SHARDS, UnreadableVoiceError, document_path, to_document
from shared.voices.voice import ErrorCode, Failure, Status
from tests.support.store_contract import VoiceStoreContract
from tests.support.voices import NOW, a_waiting

if TYPE_CHECKING:
    from shared.google.firestore import RenewableClient
    from shared.google.voices import FirestoreVoices

pytestmark = pytest.mark.emulators


class TestFirestoreVoices(VoiceStoreContract):
    """The fixture `store` is the folder's."""


async def test_the_document_has_native_times_and_the_path_that_clients_use(
    store: FirestoreVoices, client: RenewableClient
) -> None:
    voice = a_waiting(owner="uid")
    await store.create(voice)

    document = (await client.document(document_path(voice.voice_id)).get()).to_dict()

    assert document is not None
    assert (document["created_at"], document["expire_at"]) == (voice.created_at, voice.expire_at)
    assert (document["status"], document["owner"], document["input"]) == ("waiting", "uid", None)


async def test_reading_an_invalid_document_names_it(
    store: FirestoreVoices, client: RenewableClient
) -> None:
    voice = a_waiting()
    await client.document(document_path(voice.voice_id)).set(
        to_document(voice) | {"status": "lost"}
    )

    with pytest.raises(UnreadableVoiceError, match=voice.voice_id):
        await store.read(voice.voice_id)


async def test_an_invalid_document_does_not_hide_the_others(
    store: FirestoreVoices, client: RenewableClient
) -> None:
    long_ago = NOW - timedelta(days=8000)
    broken, whole = (replace(a_waiting(), updated_at=long_ago) for _ in range(2))
    await client.document(document_path(broken.voice_id)).set(
        to_document(broken) | {"options": "x"}
    )
    await store.create(whole)

    since = long_ago + timedelta(seconds=1)
    found = await store.find_unchanged(Status.WAITING, since=since, limit=1000)

    assert broken.voice_id in [error.voice_id for error in found.unreadable]
    assert whole in [snapshot.voice for snapshot in found.snapshots]
    assert all(isinstance(snapshot.read_at, datetime) for snapshot in found.snapshots)
    assert broken.voice_id not in [snapshot.voice.voice_id for snapshot in found.snapshots]


async def test_a_voice_is_in_the_sweeps_index_until_it_is_final(
    store: FirestoreVoices, client: RenewableClient
) -> None:
    voice = a_waiting()
    document = client.document(document_path(voice.voice_id))
    await store.create(voice)
    before = (await document.get()).to_dict()

    snapshot = await store.read(voice.voice_id)
    failure = Failure(ErrorCode.UPLOAD_EXPIRED, "never uploaded")
    await store.replace(snapshot, replace(voice, status=Status.FAILED, error=failure))

    assert before is not None
    assert before["sweep_shard"] in range(SHARDS)
    after = (await document.get()).to_dict()
    assert after is not None
    assert "sweep_shard" not in after
