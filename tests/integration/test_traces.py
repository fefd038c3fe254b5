"""One trace of a voice, from the api's answer to the converter's stages and back to `done`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from infra.local.cloud.start import local_cloud
from infra.local.commands.demo import read_spans, waterfall
from infra.local.configuration.options import CloudOptions
from tests.integration.served import SAMPLE

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.commands.demo import Span

PATIENCE_SECONDS = 60


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
        asyncio.timeout(PATIENCE_SECONDS),
        local_cloud(CloudOptions(folder=tmp_path, traces=path), embedded=True, note=print) as cloud,
        httpx.AsyncClient(base_url=cloud.addresses.api, timeout=PATIENCE_SECONDS) as client,
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
