"""The local cloud starts sweeps, which put back voices whose message was lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from infra.local.cloud.start import local_cloud
from infra.local.configuration import names
from infra.local.configuration.options import CloudOptions
from shared.voices.objects import upload_name
from shared.voices.voice import Input, Options, Status, create, new_voice_id
from tests.integration.served import SAMPLE, require_emulators

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.cloud.local_cloud import LocalCloud
    from shared.voices.voice import Voice

PATIENCE_SECONDS = 60
LONG_AGO = timedelta(minutes=8)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the variables that a local cloud sets for the client libraries."""
    for name in ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        monkeypatch.setenv(name, "")


async def upload(cloud: LocalCloud, voice_id: str) -> Input:
    options = {"api_endpoint": cloud.addresses.storage}
    client = storage.Client(
        names.PROJECT_ID, credentials=AnonymousCredentials(), client_options=options
    )
    name = upload_name(voice_id)
    blob = client.bucket(names.UPLOADS_BUCKET).blob(name)
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


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "embedded",
    [True, pytest.param(False, marks=pytest.mark.emulators)],
    ids=["memory", "emulators"],
)
async def test_a_voice_whose_message_was_lost_is_put_back_and_converted(
    tmp_path: Path, *, embedded: bool
) -> None:
    if not embedded:
        require_emulators()
    options = CloudOptions(folder=tmp_path, sweep_period_seconds=0.5)
    async with local_cloud(options, embedded=embedded, note=print) as cloud:
        voice_id = new_voice_id()
        await queue_without_a_message(cloud, voice_id)

        async with asyncio.timeout(PATIENCE_SECONDS):
            voice = await final_state(cloud, voice_id)

        assert voice.status is Status.DONE
        assert voice.result is not None
        assert voice.result.seconds > 0
