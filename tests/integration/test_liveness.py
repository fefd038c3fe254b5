"""The local cloud restarts a converter that no longer answers its liveness probe."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.cloud.local_cloud import running_emulators
from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import RecordingRequest, Visitor
from infra.local.configuration.options import CloudOptions, LivenessProbe
from infra.local.processes.cloud_run import wait_until_stuck
from shared.voices.voice import Status
from tests.integration.served import SAMPLE, require_emulators

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.cloud.local_cloud import LocalCloud
    from shared.voices.voice import Voice

PATIENCE_SECONDS = 90
PROBE = LivenessProbe(period_seconds=0.2, timeout_seconds=2.0, failure_threshold=2)


async def converted(cloud: LocalCloud, client: httpx.AsyncClient) -> Voice:
    visitor = Visitor(client, cloud.addresses.api, cloud.voices)
    created = await visitor.create(RecordingRequest(), "audio/webm")
    await visitor.upload(created, await asyncio.to_thread(SAMPLE.read_bytes))
    return await visitor.watch(created["voice_id"], lambda _voice: None)


@pytest.mark.emulators
@pytest.mark.usefixtures("no_emulator_named")
async def test_a_converter_that_hangs_is_restarted_and_converts_again(tmp_path: Path) -> None:
    require_emulators()
    options = CloudOptions(folder=tmp_path, liveness=PROBE)
    before = running_emulators(os.environ)
    async with (
        local_cloud(options, embedded=False, note=print) as cloud,
        httpx.AsyncClient() as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        crash = asyncio.ensure_future(cloud.crashed())
        os.kill(cloud.pids["convert"], signal.SIGSTOP)
        await wait_until_stuck(cloud.addresses.convert, PROBE)

        voice = await converted(cloud, client)

        assert voice.status is Status.DONE
        assert not crash.done()
        crash.cancel()

    assert running_emulators(os.environ) == before, "the next local cloud would look for this one"
