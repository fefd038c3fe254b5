"""A local cloud whose recordings and results are spread over three buckets each, and its sweeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from infra.local.cloud.start import local_cloud
from infra.local.configuration import names
from infra.local.configuration.options import CloudOptions
from shared.google.sharded_bucket import shard_names, shard_of
from shared.voices.objects import upload_name
from shared.voices.voice import Input, Options, Status, create, new_voice_id
from tests.integration.served import SAMPLE

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.cloud.local_cloud import LocalCloud
    from shared.voices.voice import Voice

SHARDS = 3
PATIENCE_SECONDS = 90
LONG_AGO = timedelta(minutes=8)
UPLOADS = shard_names(names.UPLOADS_BUCKET, SHARDS)
RESULTS = shard_names(names.RESULTS_BUCKET, SHARDS)


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
    return [blob.size for blob in client_of(cloud).list_blobs(bucket, prefix=prefix)]


def client_of(cloud: LocalCloud) -> storage.Client:
    options = {"api_endpoint": cloud.addresses.storage}
    return storage.Client(
        names.PROJECT_ID, credentials=AnonymousCredentials(), client_options=options
    )


async def upload(cloud: LocalCloud, voice_id: str) -> Input:
    name = upload_name(voice_id)
    blob = client_of(cloud).bucket(names.UPLOADS_BUCKET).blob(name)
    await asyncio.to_thread(
        blob.upload_from_filename, str(SAMPLE), content_type="audio/webm", if_generation_match=0
    )
    assert blob.generation is not None
    size = SAMPLE.stat().st_size
    return Input(names.UPLOADS_BUCKET, name, int(blob.generation), "audio/webm", size)


async def queue_without_a_message(cloud: LocalCloud, voice_id: str) -> None:
    """Leave a voice as it is when its conversion message was lost long ago."""
    now = datetime.now(UTC)
    voice = create(voice_id, "mei", Options(content_type="audio/webm"), now=now)
    # on_upload publishes nothing for a voice that is queued already.
    queued = replace(voice, status=Status.QUEUED)
    await cloud.voices.create(queued)
    recording = await upload(cloud, voice_id)
    lost = replace(queued, input=recording, updated_at=now - LONG_AGO)
    await cloud.voices.replace(await cloud.voices.read(voice_id), lost)


async def final_state(cloud: LocalCloud, voice_id: str) -> Voice:
    async with cloud.voices.watch(voice_id) as states:
        async for state in states:
            if state is not None and state.status.is_final:
                return state
    raise AssertionError("the listener ended")


async def test_voices_of_every_bucket_are_converted_swept_and_erased(
    tmp_path: Path, *, embedded: bool
) -> None:
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
        lost = next(each for each in iter(new_voice_id, "") if shard_of(each, SHARDS) != 0)
        await queue_without_a_message(cloud, lost)
        voice = await final_state(cloud, lost)
        assert voice.status is Status.DONE
        assert voice.input is not None
        assert voice.input.bucket == UPLOADS[0]
