"""The local cloud: its bounds, App Check, liveness probes and traces."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import httpx
import hypercorn.protocol
import pytest
from hypercorn.protocol.h2 import H2Protocol

from infra.local.cloud.local_cloud import running_emulators
from infra.local.cloud.start import local_cloud
from infra.local.commands.demo import read_spans, waterfall
from infra.local.commands.visitor import RecordingRequest, Visitor
from infra.local.configuration.options import CloudOptions, LivenessProbe
from infra.local.processes.cloud_run import wait_until_stuck
from shared.container.protocols import MOST_RESETS
from shared.voices.voice import Status
from tests.integration.served import SAMPLE, require_emulators
from tests.unit.container.test_http2 import a_client, answer_to, begin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from infra.local.cloud.local_cloud import LocalCloud
    from infra.local.commands.demo import Span
    from shared.voices.voice import Voice


async def test_requests_that_are_taken_back_at_once_close_their_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a new process, whatever servers other tests have started in this one.
    monkeypatch.setattr(hypercorn.protocol, "H2Protocol", H2Protocol)
    async with (
        local_cloud(CloudOptions(folder=tmp_path), embedded=True) as cloud,
        asyncio.timeout(30),
    ):
        addresses = cloud.addresses
        for address in (addresses.api, addresses.storage, str(addresses.live)):
            host, port = address.removeprefix("http://").split(":")
            connection, client = await asyncio.open_connection(host, port), a_client()
            for number in range(2 * MOST_RESETS):
                begin(client, 2 * number + 1)
                client.reset_stream(2 * number + 1)
            with pytest.raises(ConnectionError, match="11"):
                await answer_to(client, connection, 4 * MOST_RESETS + 1)
            connection[1].close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (page := tmp_path / "page").mkdir()
    (page / "index.html").write_text("<!doctype html><title>The page</title>")
    options = CloudOptions(folder=tmp_path, web_root=page, app_check=True)
    async with (
        local_cloud(options, embedded=True) as cloud,
        httpx.AsyncClient(base_url=cloud.addresses.api) as asking,
    ):
        yield asking


async def test_only_the_local_clouds_own_page_is_let_in(
    client: httpx.AsyncClient,
) -> None:
    token = (await client.get("/config.json")).json()["appCheck"]["token"]

    refused = await client.post("/api/v1/voices")
    created = await client.post("/api/v1/voices", headers={"X-Firebase-AppCheck": token})
    forged = await client.post(
        "/api/v1/voices", headers={"X-Firebase-AppCheck": f"{token[:-4]}AAAA"}
    )

    assert (refused.status_code, refused.json()["code"]) == (401, "app_check_refused")
    assert (forged.status_code, forged.json()["code"]) == (401, "app_check_refused")
    assert created.status_code == 201, created.text


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


TRACED_SECONDS = 60


AROUND = {
    "wait": "api",
    "notification of the upload": "on_upload",
    "upload received": "on_upload",
    "delivery of the message": "convert",
    "attempt": "convert",
}
INSIDE = ["lease", "read", "decode", "network", "store", "done", "tidy"]


def named(spans: list[Span], name: str) -> Span:
    found = [span for span in spans if span.name == name]
    assert len(found) == 1, f"{name}: {len(found)} of {[span.name for span in spans]}"
    return found[0]


async def wait_for_all(path: Path, voice_id: str) -> list[Span]:
    """Wait until every step is written: some end after the visitor has the result."""
    while True:
        spans = read_spans(path, voice_id)
        if {"voice", *AROUND, *INSIDE} <= {span.name for span in spans}:
            return spans
        await asyncio.sleep(0.05)


async def test_a_voice_has_one_trace_from_the_api_to_its_result(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    async with (
        asyncio.timeout(TRACED_SECONDS),
        local_cloud(CloudOptions(folder=tmp_path, traces=path), embedded=True, note=print) as cloud,
        httpx.AsyncClient(base_url=cloud.addresses.api, timeout=TRACED_SECONDS) as client,
    ):
        created = (await client.post("/api/v1/voices", json={"content_type": "audio/webm"})).json()
        signed = created["upload"]
        content = await asyncio.to_thread(SAMPLE.read_bytes)
        await client.put(signed["url"], headers=signed["headers"], content=content)
        answer = await client.get(f"/api/v1/conversion/{created['voice_id']}")
        assert answer.status_code == 200
        spans = await wait_for_all(path, created["voice_id"])

    first = named(spans, "voice")
    assert first.parent_id is None
    attempt = named(spans, "attempt")
    for name, service in AROUND.items():
        assert named(spans, name).service == service
        assert named(spans, name).parent_id == first.span_id
    for name in INSIDE:
        assert named(spans, name).parent_id == attempt.span_id
        assert attempt.begin <= named(spans, name).begin <= named(spans, name).end <= attempt.end
    order = ["voice", "upload received", "attempt", *INSIDE]
    assert order == sorted(order, key=lambda name: named(spans, name).begin)
    assert len(waterfall(spans)) == len(spans)
