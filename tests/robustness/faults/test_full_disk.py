"""Machines whose disk is full."""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING

import httpx
import pytest

from shared.voices.voice import Status
from tests.integration.served import SAMPLE
from tests.robustness.faults.cloud import NO_DISK
from tests.robustness.faults.endings import require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]


def a_recording_too_large_for_memory() -> bytes:
    """Return a recording of more than a megabyte, which the api buffers on disk."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(2)
        writer.setframerate(48_000)
        writer.writeframes(bytes(9 * 48_000 * 4))
    return file.getvalue()


async def test_a_conversion_needs_no_disk(cloud: FaultyCloud) -> None:
    diskless = await cloud.start_convert(NO_DISK)
    voice_id = await cloud.create_voice()
    cloud.front.pin(voice_id, diskless.url)

    await cloud.upload(voice_id)

    done = await require_one_result(cloud, voice_id)
    assert done.attempt == 1
    await cloud.stop(diskless)
    assert '"event": "conversion_done"' in await diskless.log()


async def test_a_recording_that_did_not_fit_on_the_disk_can_be_sent_again(
    cloud: FaultyCloud,
) -> None:
    api = await cloud.start_function("api", NO_DISK)
    voice_id = await cloud.create_voice()
    address = f"{api.url}api/v1/voices"
    async with httpx.AsyncClient(timeout=60) as client:

        async def send(recording: bytes, content_type: str) -> httpx.Response:
            files = {"file": ("recording", recording, content_type)}
            return await client.put(address, data={"voice_id": voice_id}, files=files)

        refused = await send(a_recording_too_large_for_memory(), "audio/wav")
        waiting = await cloud.read(voice_id)
        taken = await send(SAMPLE.read_bytes(), "audio/webm")

    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert waiting.status is Status.WAITING
    assert taken.status_code == 202, taken.text
    await require_one_result(cloud, voice_id)
    await cloud.stop(api)
