"""Voices on their way through a local cloud, as their visitors see them."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from infra.local.cloud.local_cloud import LocalCloud
from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import RecordingRequest, Visitor
from infra.local.configuration.options import CloudOptions, Scaling
from shared.voices.voice import Voice
from tools.benchmarks.recordings import CONTENT_TYPE, webm
from tools.benchmarks.servers import changed_environment

SPOKEN_SECONDS: Final = 3.0
LISTENING_SECONDS: Final = 0.2
"""The shortest time that a visitor speaks; the listener has reported the voice by then."""

_CONNECTIONS: Final = httpx.Limits(keepalive_expiry=2.0)
"""Servers close connections that have been idle for 5 s; a request at that moment would fail."""

_BEAT_SECONDS: Final = 0.1


@dataclass(slots=True)
class VoiceJourney:
    """The way of one voice; moments are seconds of the monotonic clock."""

    voice_id: str
    uploaded_at: float = 0.0
    reported_at: float = 0.0  # when the listener reported its last state
    states: int = 0  # that the listener reported
    conversion: float = 0.0  # milliseconds of its stages

    def add_state(self, _voice: Voice) -> None:
        self.states += 1
        self.reported_at = time.perf_counter()

    @property
    def overhead(self) -> float:
        """Milliseconds from the end of the upload to `done`, without the conversion."""
        return (self.reported_at - self.uploaded_at) * 1000 - self.conversion


class Visitors:
    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self.cloud = cloud
        self.client = client
        self.visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._recording = webm(SPOKEN_SECONDS)
        self._chance = random.Random(0)

    async def speak(self, seconds: float = LISTENING_SECONDS) -> None:
        """Wait as long as a visitor speaks, and up to 100 ms longer.

        The Pub/Sub emulator looks for messages every 50 to 100 ms; visits at a constant distance
        would always meet the same point of that period.
        """
        await asyncio.sleep(seconds + self._chance.uniform(0.0, _BEAT_SECONDS))

    async def send(self) -> VoiceJourney:
        created = await self.visitor.create(RecordingRequest(), CONTENT_TYPE)
        journey = VoiceJourney(created["voice_id"])
        watching = asyncio.create_task(self.visitor.watch(journey.voice_id, journey.add_state))
        await self.speak()
        await self.visitor.upload(created, self._recording)
        journey.uploaded_at = time.perf_counter()
        journey.conversion = sum((await watching).timings.values())
        return journey

    async def send_one_by_one(self, count: int) -> list[VoiceJourney]:
        return [await self.send() for _ in range(count)]


@asynccontextmanager
async def visited_cloud(
    *,
    embedded: bool = False,
    upload_shards: int = 1,
    scaling: Scaling | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Visitors]:
    """Start a local cloud, without Google's emulators if it is embedded; stop it at the end."""
    async with AsyncExitStack() as stack:
        # A local cloud tells the client libraries by the environment where its emulators are.
        stack.enter_context(changed_environment(environment or {}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        options = CloudOptions(folder=folder, upload_shards=upload_shards, scaling=scaling)
        cloud = await stack.enter_async_context(local_cloud(options, embedded=embedded, note=print))
        client = await stack.enter_async_context(httpx.AsyncClient(limits=_CONNECTIONS))
        yield Visitors(cloud, client)
