"""Visitors of a local cloud whose conversion container comes and goes."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from infra.local.commands.visitor import RecordingRequest
from infra.local.configuration.options import Scaling
from tools.benchmarks.recordings import CONTENT_TYPE
from tools.benchmarks.voice_journeys import LISTENING_SECONDS, Visitors, visited_cloud

STOP_SECONDS: Final = 20.0
NEVER_IDLE: Final = Scaling(idle_seconds=3600.0)  # the benchmark ends instances, not the clock


class InstanceState(StrEnum):
    COLD = "scaled to zero, no warm-up"
    WARMING_UP = "scaled to zero, warm-up as the recording begins"
    WARM = "minimum instance"


class Visit(NamedTuple):
    """Milliseconds from the end of a recording to `done`, and those of the conversion in them."""

    wait: float
    conversion: float


class ScaledCloud:
    """A local cloud with a proxy before its converter, and a visitor."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._convert = visitors.cloud.addresses.convert
        self._proxy = psutil.Process(visitors.cloud.services.pids["convert"])

    async def visit(self, state: InstanceState, recording: bytes, seconds: float) -> Visit:
        """Speak for so many seconds and wait for the character; WARM needs an earlier visit."""
        visitors, visitor = self._visitors, self._visitors.visitor
        if state is InstanceState.WARMING_UP:
            await self._scale_to_zero()
        # With this the api sends the warm-up.
        created = await visitor.create(RecordingRequest(), CONTENT_TYPE)
        if state is InstanceState.COLD:
            await self._warm_up()
            await self._scale_to_zero()
        watching = asyncio.create_task(visitor.watch(created["voice_id"], lambda _voice: None))
        # Nothing starts while the visitor of a cold instance speaks: a moment is enough.
        await visitors.speak(LISTENING_SECONDS if state is InstanceState.COLD else seconds)
        begin = time.perf_counter()
        await visitor.upload(created, recording)
        voice = await watching
        return Visit((time.perf_counter() - begin) * 1000, sum(voice.timings.values()))

    async def _scale_to_zero(self) -> None:
        children = self._proxy.children()
        for child in children:
            child.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, STOP_SECONDS)
        if alive:
            raise RuntimeError("the conversion container did not stop")

    async def _warm_up(self) -> None:
        address = f"{self._convert}/warmup"
        (await self._visitors.client.get(address, timeout=STOP_SECONDS)).raise_for_status()


def bytecode_environment(folder: Path, *, is_written: bool) -> dict[str, str]:
    """Return the variables of processes that keep bytecode in a folder alone."""
    # Python takes an empty variable as not set.
    unwritten = "" if is_written else "1"
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": unwritten}


@asynccontextmanager
async def scaled_cloud() -> AsyncIterator[ScaledCloud]:
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        # As in the container's image, everything is compiled; the first start does that.
        compiled = bytecode_environment(Path(folder), is_written=True)
        async with visited_cloud(scaling=NEVER_IDLE, environment=compiled) as visitors:
            yield ScaledCloud(visitors)
