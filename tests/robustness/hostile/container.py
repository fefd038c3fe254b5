"""A conversion container whose decoder, worker and push endpoint are real."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx

from functions.convert.main import build
from functions.convert.settings import ConvertSettings
from infra.local.cloud.memory import MemoryVoices
from shared.conversion.composition import ConversionServices, Stores
from shared.conversion.start import ConversionTools, start_tools
from shared.runtime import settings
from shared.voices import voice as voices_of
from shared.voices.media import CONTENT_TYPES, SNIFF_BYTES, sniff
from shared.voices.messages import ConversionMessage
from shared.voices.voice import Options
from tests.robustness.hostile.corpus import DONE, MAX_BYTES
from tests.support.buckets import MemoryBucket
from tests.support.messages import envelope
from tests.support.speakers import a_speaker
from tests.support.voices import an_upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ECHO = "echo"
"""A character that returns its input: these tests try the decoder, not the network."""


@dataclass(frozen=True)
class HostileContainer:
    client: httpx.AsyncClient
    voices: MemoryVoices
    uploads: MemoryBucket
    results: MemoryBucket

    async def ending_of(self, recording: bytes, character: str = ECHO) -> str:
        """Upload a recording, push its message, and return `done` or its voice's error code.

        Everything else is a surprise, and says so.
        """
        container = sniff(recording[:SNIFF_BYTES])
        content_type = CONTENT_TYPES[container][0] if container else "audio/webm"
        options = Options(content_type=content_type)
        now = datetime.now(UTC)
        voice = voices_of.create(voices_of.new_voice_id(), character, options, now=now)
        await self.voices.create(voice)
        generation = self.uploads.put(voice.voice_id, recording, content_type)
        upload = an_upload(
            voice.voice_id,
            generation=generation,
            content_type=content_type,
            bytes=len(recording),
        )
        message = envelope(ConversionMessage(voice.voice_id, upload).encode())
        response = await self.client.post("/push", json=message)
        ended = (await self.voices.read(voice.voice_id)).voice
        has_result = any(name.startswith(voice.voice_id) for name in self.results.objects)
        await self.uploads.delete(voice.voice_id)
        if response.status_code != httpx.codes.NO_CONTENT:
            return f"answered {response.status_code} {response.text}"
        if ended.error is not None:
            return f"a result and {ended.error.code}" if has_result else ended.error.code
        return DONE if has_result and ended.status == DONE else f"acknowledged as {ended.status}"


@asynccontextmanager
async def running_container() -> AsyncIterator[HostileContainer]:
    """Start a container with the real characters and one that echoes."""
    config = settings.load(
        ConvertSettings,
        project_id="hostile",
        environment="local",
        uploads_bucket="uploads",
        results_bucket="results",
        push_verification="off",
        signing_key_file="none",
        max_upload_bytes=MAX_BYTES,
    )
    voices, uploads, results = MemoryVoices(), MemoryBucket("uploads"), MemoryBucket("results")
    async with start_tools(config) as coming:
        ready = await coming
        tools = ConversionTools(ready.decoder, {**ready.characters, ECHO: a_speaker(ECHO)})
        app = build(config, ConversionServices(Stores(voices, uploads, results), tools))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://convert.test") as client:
            yield HostileContainer(client, voices, uploads, results)
        await app.drain()
