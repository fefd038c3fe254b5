"""Visitors of a local cloud whose conversion container comes and goes."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import psutil

from benchmarks.cold_start.starting import bytecode_in
from benchmarks.measuring.recordings import CONTENT_TYPE
from benchmarks.measuring.voice_journeys import (
    CONNECTIONS,
    LISTENING_SECONDS,
    changed_environment,
    off_beat,
)
from infra.local.cloud.starting import local_cloud
from infra.local.commands.visitor import Visitor, Wish
from infra.local.configuration.options import CloudOptions, Scaling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from infra.local.cloud.cloud import LocalCloud

STOP_SECONDS: Final = 20.0
NEVER_IDLE: Final = Scaling(idle_seconds=3600.0)
"""When an instance ends is up to the benchmark, not to the clock."""


class InstanceState(StrEnum):
    """How the visitor finds the conversion container."""

    COLD = "scaled to zero, no warm-up"
    WARMING_UP = "scaled to zero, warm-up as the recording begins"
    WARM = "minimum instance"


@dataclass(frozen=True, slots=True)
class Visit:
    """One visitor's experience, in milliseconds.

    Attributes:
        wait: from the end of the recording until the listener said `done`.
        conversion: the part of it that the stages of the conversion took.
    """

    wait: float
    conversion: float


class ScaledCloud:
    """A local cloud with a proxy in front of its converter, and a visitor.

    Args:
        cloud: the local cloud.
        client: sends requests.
    """

    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self.cloud = cloud
        self.client = client
        self.visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._convert = cloud.addresses.convert
        self._proxy = psutil.Process(cloud.pids["convert"])
        self._chance = random.Random(0)

    async def visit(
        self,
        state: InstanceState,
        recording: bytes,
        seconds: float,
        spoken: Callable[[], None] = lambda: None,
    ) -> Visit:
        """Speak for so long and wait for the character; WARM needs an earlier visit.

        Args:
            state: how the visitor finds the conversion container.
            recording: what is uploaded.
            seconds: how long the visitor speaks.
            spoken: called at the end of the recording.
        """
        if state is InstanceState.WARMING_UP:
            await self.scale_to_zero()
        # The api sends the warm-up with this.
        created = await self.visitor.create(Wish(), CONTENT_TYPE)
        if state is InstanceState.COLD:
            await self._warm_up()
            await self.scale_to_zero()
        watching = asyncio.create_task(self.visitor.watch(created["voice_id"], lambda _voice: None))
        # Where nothing is under way meanwhile, how long the visitor speaks changes nothing.
        is_waiting = state is InstanceState.COLD
        speaking = LISTENING_SECONDS if is_waiting else seconds
        await asyncio.sleep(speaking + off_beat(self._chance))
        spoken()
        begin = time.perf_counter()
        await self.visitor.upload(created, recording)
        voice = await watching
        wait = (time.perf_counter() - begin) * 1000
        return Visit(wait, sum(voice.timings.values()))

    async def scale_to_zero(self) -> None:
        """Stop the instance, if there is one, and wait for its end."""
        children = self._proxy.children()
        for child in children:
            child.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, STOP_SECONDS)
        if alive:
            raise RuntimeError("the conversion container did not stop")

    async def start(self) -> float:
        """Start an instance as a warm-up does; return the seconds until it can convert."""
        await self.scale_to_zero()
        begin = time.perf_counter()
        await self._warm_up()
        return time.perf_counter() - begin

    async def _warm_up(self) -> None:
        response = await self.client.get(f"{self._convert}/warmup", timeout=STOP_SECONDS)
        response.raise_for_status()


@asynccontextmanager
async def scaled_cloud() -> AsyncIterator[ScaledCloud]:
    """Start a local cloud whose converter scales to zero, and stop it at the end."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        # As in the container's image, everything is compiled; the first start does that.
        compiled = bytecode_in(folder / "bytecode", is_written=True)
        stack.enter_context(changed_environment(compiled))
        options = CloudOptions(folder=folder, scaling=NEVER_IDLE)
        cloud = await stack.enter_async_context(local_cloud(options, note=print))
        client = await stack.enter_async_context(httpx.AsyncClient(limits=CONNECTIONS))
        yield ScaledCloud(cloud, client)
