"""Voices on their way through a local cloud, as their visitors see them."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

# Before the client libraries: local clouds are started while gRPC's threads run.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import httpx

from infra.local.cloud.local_cloud import find_emulators
from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import RecordingRequest, Visitor
from infra.local.configuration.environments import FIRESTORE_VARIABLE, PUBSUB_VARIABLE
from infra.local.configuration.options import RULES, CloudOptions
from infra.local.processes.children import Supervisor
from shared.voices.voice import Status
from tools.benchmarks.recordings import CONTENT_TYPE, webm

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from infra.local.cloud.local_cloud import LocalCloud
    from shared.voices.voice import Voice

SPOKEN_SECONDS: Final = 3.0
CONNECTIONS: Final = httpx.Limits(keepalive_expiry=2.0)
"""Servers close connections that have been idle for 5 s; a request at that moment would fail."""

AT_ONCE: Final = 8
"""How many visitors saturate the machine."""

LISTENING_SECONDS: Final = 0.2
"""A visitor speaks for longer; by then the listener has told of the voice."""

_BEAT_SECONDS: Final = 0.1


def off_beat(chance: random.Random) -> float:
    """Return by how many seconds longer a visitor speaks, so that uploads keep no time.

    The Pub/Sub emulator looks for messages every 50 to 100 ms. Visits that follow one another at a
    constant distance come at the same point of that beat again and again: always early, or always
    late.
    """
    return chance.uniform(0.0, _BEAT_SECONDS)


@dataclass(slots=True)
class VoiceJourney:
    """One voice's way.

    Attributes:
        uploaded_at: when the upload was answered, in seconds since the epoch.
        conversion: milliseconds of the conversion's stages.
    """

    voice_id: str
    uploaded_at: float = 0.0
    seen: dict[Status, float] = field(default_factory=dict)
    states: int = 0
    conversion: float = 0.0

    def note(self, voice: Voice) -> None:
        """Note a state that the listener told of."""
        self.states += 1
        self.seen.setdefault(voice.status, time.time())

    def since_upload(self, moment: float) -> float:
        """Return the milliseconds from the end of the upload to a moment."""
        return (moment - self.uploaded_at) * 1000

    @property
    def overhead(self) -> float:
        """Milliseconds from the end of the upload to `done`, without the conversion."""
        return self.since_upload(self.seen[Status.DONE]) - self.conversion


class Visitors:
    """Send voices through a local cloud."""

    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self.cloud = cloud
        self.client = client
        self._visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._recording = webm(SPOKEN_SECONDS)
        self._chance = random.Random(0)

    async def send(self) -> VoiceJourney:
        """Send one voice and wait until it is done."""
        created = await self._visitor.create(RecordingRequest(), CONTENT_TYPE)
        journey = VoiceJourney(created["voice_id"])
        watching = asyncio.create_task(self._visitor.watch(journey.voice_id, journey.note))
        await asyncio.sleep(LISTENING_SECONDS + off_beat(self._chance))
        await self._visitor.upload(created, self._recording)
        journey.uploaded_at = time.time()
        journey.conversion = sum((await watching).timings.values())
        return journey

    async def one_by_one(self, count: int) -> list[VoiceJourney]:
        """Send voices one after another."""
        return [await self.send() for _ in range(count)]


@asynccontextmanager
async def visited_cloud(
    *, embedded: bool, upload_shards: int = 1, traces: str | None = None
) -> AsyncIterator[Visitors]:
    """Start a local cloud and stop it at the end.

    Args:
        traces: the address of a collector that the steps of voices are sent to; None for none.
    """
    async with AsyncExitStack() as stack:
        # A local cloud tells the client libraries by the environment where its emulators are.
        stack.enter_context(changed_environment({}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        options = CloudOptions(folder=folder, upload_shards=upload_shards, traces=traces)
        cloud = await stack.enter_async_context(local_cloud(options, embedded=embedded, note=print))
        client = await stack.enter_async_context(httpx.AsyncClient(limits=CONNECTIONS))
        yield Visitors(cloud, client)


@asynccontextmanager
async def running_emulators() -> AsyncIterator[tuple[str, str]]:
    """Start the Firestore and Pub/Sub emulators alone; yield their addresses, HOST:PORT."""
    emulators = find_emulators()
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        supervisor = Supervisor(Path(name))
        firestore, pubsub = supervisor.ports.free(2)
        try:
            for service, port, command in (
                ("firestore", firestore, emulators.firestore_command(firestore, RULES)),
                ("pubsub", pubsub, emulators.pubsub_command(pubsub)),
            ):
                process = await supervisor.start(service, command, os.environ)
                await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/")
            yield f"127.0.0.1:{firestore}", f"127.0.0.1:{pubsub}"
        finally:
            await supervisor.stop_all()


@contextmanager
def told_of_emulators(firestore: str, pubsub: str) -> Iterator[None]:
    """Let local clouds use running emulators instead of starting some."""
    with changed_environment({FIRESTORE_VARIABLE: firestore, PUBSUB_VARIABLE: pubsub}):
        yield


@contextmanager
def changed_environment(changes: dict[str, str]) -> Iterator[None]:
    """Change environment variables, and change them back with all that was changed meanwhile."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
