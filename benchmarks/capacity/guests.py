"""Visitors of a local cloud, one after another, many at once or at random."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from benchmarks.measuring.recordings import CONTENT_TYPE, webm
from benchmarks.measuring.voice_journeys import AT_ONCE, LISTENING_SECONDS, off_beat
from infra.local.commands.visitor import Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.local.cloud.cloud import LocalCloud
    from infra.local.commands.visitor import Visitor

SPOKEN_SECONDS: Final = 3.0


class Guests:
    """Visitors whose wait counts from the end of the recording.

    Args:
        cloud: the local cloud.
        visitor: speaks to it.
    """

    def __init__(self, cloud: LocalCloud, visitor: Visitor) -> None:
        self.cloud = cloud
        self._visitor = visitor
        self._recording = webm(SPOKEN_SECONDS)
        self._chance = random.Random(0)

    async def visit(self) -> float:
        """Send one voice; return the seconds from the begin of its upload to `done`."""
        created = await self._visitor.create(Wish(), CONTENT_TYPE)
        watching = asyncio.create_task(
            self._visitor.watch(created["voice_id"], lambda _voice: None)
        )
        await asyncio.sleep(LISTENING_SECONDS + off_beat(self._chance))
        begin = time.perf_counter()
        await self._visitor.upload(created, self._recording)
        await watching
        return time.perf_counter() - begin

    async def one_by_one(self, count: int) -> list[float]:
        """Send voices one after another."""
        return [await self.visit() for _ in range(count)]

    async def saturate(self, count: int) -> float:
        """Send so many, always `AT_ONCE` under way; return voices per second."""
        left = iter(range(count))

        async def visit() -> None:
            for _ in left:
                await self.visit()

        begin = time.perf_counter()
        await asyncio.gather(*(visit() for _ in range(AT_ONCE)))
        return count / (time.perf_counter() - begin)

    async def at_random(
        self, counts: Sequence[int], rates: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Send voices at random times: so many of them at each rate, one rate after the other.

        Returns:
            Their waits and, in the same order, when they came: seconds after the first of them.
        """
        sending: list[asyncio.Task[float]] = []
        came: list[float] = []
        begin = time.perf_counter()
        for count, rate in zip(counts, rates, strict=True):
            for _ in range(count):
                came.append(time.perf_counter() - begin)
                sending.append(asyncio.create_task(self.visit()))
                await asyncio.sleep(self._chance.expovariate(rate))
        return await asyncio.gather(*sending), came
