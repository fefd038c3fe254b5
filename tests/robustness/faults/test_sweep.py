"""An event is lost, and a document is no voice: the sweep finds the one and names the other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
import pytest_asyncio

from infra.local.configuration import names
from shared.voices.store import document_path
from shared.voices.voice import new_voice_id
from tests.robustness.faults.endings import require_one_result
from tests.robustness.faults.scale_to_zero_proxy import LOST
from tests.support.logs import logged_as

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

LONG_AGO = timedelta(minutes=30)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sweep(cloud: FaultyCloud) -> AsyncIterator[Instance]:
    running = await cloud.start_function("sweep")
    yield running
    await cloud.stop(running)


async def run(sweep: Instance) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(sweep.url)
    assert answer.status_code == 200, answer.text


@pytest_asyncio.fixture(loop_scope="session")
async def damaged(cloud: FaultyCloud) -> AsyncIterator[str]:
    """A document that is not a voice: it has only what the sweep looks for."""
    voice_id, long_ago = new_voice_id(), datetime.now(UTC) - LONG_AGO
    documents = f"projects/{names.PROJECT_ID}/databases/(default)/documents"
    address = f"http://{cloud.addresses.firestore}/v1/{documents}/{document_path(voice_id)}"
    fields = {
        "status": {"stringValue": "waiting"},
        "sweep_shard": {"integerValue": "0"},
        "updated_at": {"timestampValue": long_ago.strftime("%Y-%m-%dT%H:%M:%SZ")},
    }
    # The emulator's word for a service, which the rules do not touch.
    owner = {"Authorization": "Bearer owner"}
    async with httpx.AsyncClient(headers=owner, timeout=60) as client:
        (await client.patch(address, json={"fields": fields})).raise_for_status()
        yield voice_id
        (await client.delete(address)).raise_for_status()


async def test_an_unreadable_document_does_not_stop_the_sweep(
    cloud: FaultyCloud, sweep: Instance, damaged: str
) -> None:
    voice_id = await cloud.create_voice(age=LONG_AGO)
    cloud.front.pin(voice_id, LOST, service="on_upload")
    await cloud.upload(voice_id)
    await cloud.front.acknowledged(voice_id, "on_upload")

    await run(sweep)

    await require_one_result(cloud, voice_id)
    entries = [json.loads(line) for line in (await sweep.log()).splitlines()]
    named = [e["voice"] for e in entries if e.get("event") == "unreadable_voice"]
    assert named == [logged_as(damaged)]
