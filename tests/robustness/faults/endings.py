"""The conditions that must hold after every fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.voices.voice import ErrorCode, Status

if TYPE_CHECKING:
    from shared.voices.voice import Voice
    from tests.robustness.faults.cloud import FaultyCloud


async def require_one_result(cloud: FaultyCloud, voice_id: str, messages: int = 1) -> Voice:
    """Require that a voice is done, with one result object, and every message acknowledged."""
    await cloud.front.acknowledged(voice_id, messages=messages)
    voice = await cloud.read(voice_id)
    assert voice.status is Status.DONE, voice.error
    assert voice.result is not None
    assert voice.lease_expires_at is None
    assert await cloud.results(voice_id) == [voice.result.object]
    await _require_rest(cloud, voice)
    return voice


async def require_one_failure(
    cloud: FaultyCloud, voice_id: str, code: ErrorCode, messages: int = 1
) -> Voice:
    """Require that a voice failed with a code and left no result or unacknowledged message."""
    await cloud.front.acknowledged(voice_id, messages=messages)
    voice = await cloud.read(voice_id)
    assert voice.status is Status.FAILED
    assert voice.error is not None
    assert voice.error.code is code
    assert voice.lease_expires_at is None
    assert await cloud.results(voice_id) == []
    await _require_rest(cloud, voice)
    return voice


async def _require_rest(cloud: FaultyCloud, voice: Voice) -> None:
    """Require that nothing is in progress that could still change the voice."""
    if list(cloud.front.about(voice.voice_id, "on_upload")):
        await cloud.front.acknowledged(voice.voice_id, "on_upload")
    assert await cloud.read(voice.voice_id) == voice
    assert await cloud.upload_bytes(voice.voice_id) == 0
