"""A local cloud whose recordings and results are spread over three buckets each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from infra.local.cloud.start import local_cloud
from infra.local.configuration import names
from infra.local.configuration.options import CloudOptions
from shared.google.sharded_bucket import shard_names, shard_of
from shared.voices.objects import upload_name
from shared.voices.voice import Status, new_voice_id
from tests.integration.served import SAMPLE, require_emulators
from tests.integration.test_sweep import final_state, queue_without_a_message

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.cloud.local_cloud import LocalCloud

SHARDS = 3
PATIENCE_SECONDS = 90
UPLOADS = shard_names(names.UPLOADS_BUCKET, SHARDS)
RESULTS = shard_names(names.RESULTS_BUCKET, SHARDS)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the variables that a local cloud sets for the client libraries."""
    for name in ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        monkeypatch.setenv(name, "")


def bucket_in(created: dict[str, Any]) -> str:
    return str(httpx.URL(created["upload"]["url"]).path).split("/")[1]


async def one_voice_of_each_bucket(client: httpx.AsyncClient, api: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while len(found) < SHARDS:
        answer = await client.post(f"{api}/api/v1/voices", json={"content_type": "audio/webm"})
        created = answer.json()
        found[bucket_in(created)] = created
    return found


def bytes_of(cloud: LocalCloud, bucket: str, prefix: str) -> list[int]:
    client = storage.Client(
        names.PROJECT_ID,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.addresses.storage},
    )
    return [blob.size for blob in client.list_blobs(bucket, prefix=prefix)]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "embedded",
    [True, pytest.param(False, marks=pytest.mark.emulators)],
    ids=["memory", "emulators"],
)
async def test_voices_of_every_bucket_are_converted_swept_and_erased(
    tmp_path: Path, *, embedded: bool
) -> None:
    if not embedded:
        require_emulators()
    options = CloudOptions(folder=tmp_path, upload_shards=SHARDS, sweep_period_seconds=0.5)
    async with (
        local_cloud(options, embedded=embedded, note=print) as cloud,
        httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        api = cloud.addresses.api
        voices = await one_voice_of_each_bucket(client, api)
        assert sorted(voices) == UPLOADS
        for created in voices.values():
            signed = created["upload"]
            content = SAMPLE.read_bytes()
            await client.put(signed["url"], headers=signed["headers"], content=content)

        for bucket, created in voices.items():
            voice = await final_state(cloud, created["voice_id"])
            assert voice.status is Status.DONE
            assert voice.input is not None
            assert voice.result is not None
            assert voice.input.bucket == bucket
            # The same part of either kind.
            assert voice.result.bucket == RESULTS[UPLOADS.index(bucket)]
            heard = await client.get(voice.result.url)
            assert len(heard.content) == voice.result.bytes

        for bucket, created in voices.items():
            name = created["voice_id"]
            await client.delete(f"{api}/api/v1/voices/{name}")
            assert await asyncio.to_thread(bytes_of, cloud, bucket, upload_name(name)) == [0]
            for results in RESULTS:
                assert await asyncio.to_thread(bytes_of, cloud, results, name) == []

        # Its recording lies in the first bucket, as those do from before there were several.
        lost = next(each for each in iter(new_voice_id, "") if _belongs_elsewhere(each))
        await queue_without_a_message(cloud, lost)
        voice = await final_state(cloud, lost)
        assert voice.status is Status.DONE
        assert voice.input is not None
        assert voice.input.bucket == UPLOADS[0]


def _belongs_elsewhere(voice_id: str) -> bool:
    return shard_of(voice_id, SHARDS) != 0
