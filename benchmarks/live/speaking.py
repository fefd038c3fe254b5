"""A visitor who speaks to a local cloud, live or by the upload path, and waits for the result."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measuring.processes import cpu_seconds
from benchmarks.measuring.recordings import CONTENT_TYPE, SLICE_SECONDS
from infra.local.commands.live_visitor import LiveVisitor
from infra.local.commands.visitor import Visitor, Wish
from shared.voices.voice import Status

if TYPE_CHECKING:
    import httpx

    from infra.local.cloud.cloud import LocalCloud
    from shared.voices.voice import Voice


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds from the end of the speech.

    Attributes:
        playable: until all of the result is there.
        done: until the document is done.
    """

    playable: float
    done: float


@dataclass(frozen=True, slots=True)
class Spoken:
    """A recording that is spoken.

    Attributes:
        recording: a WebM file.
        seconds: how long it is.
        within: in how many seconds it is sent; None at the pace of speech.
    """

    recording: bytes
    seconds: float
    within: float | None = None


class SpeakingVisitor:
    """Speaks to one local cloud.

    Args:
        cloud: the local cloud.
        client: sends HTTP requests.
        wish: what is wished for.
    """

    def __init__(
        self, cloud: LocalCloud, client: httpx.AsyncClient, wish: Wish | None = None
    ) -> None:
        self._pids = cloud.pids
        self._visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._client = client
        self._wish = wish or Wish()

    async def live(self, spoken: Spoken) -> Wait | None:
        """Speak to `live`, in slices as the page sends them; None if it does not convert."""
        created = await self._visitor.create(self._wish, CONTENT_TYPE)
        offer, recording = created["live"], spoken.recording
        piece = math.ceil(len(recording) * SLICE_SECONDS / spoken.seconds)
        within = spoken.within or spoken.seconds
        async with LiveVisitor(offer["url"], offer["ticket"]) as visitor:
            await visitor.speak(recording, CONTENT_TYPE, seconds=within, piece=piece)
            ended = time.perf_counter()
            last = await visitor.end()
        if last is None or last["type"] != "done" or "sound" not in visitor.came_at:
            return None
        return Wait(visitor.came_at["sound"] - ended, visitor.came_at["done"] - ended)

    async def upload(self, spoken: Spoken) -> Wait | None:
        """Speak, upload, listen to the document and fetch the result; None without a result."""
        created = await self._visitor.create(self._wish, CONTENT_TYPE)
        seen: list[float] = []

        def note(voice: Voice) -> None:
            if voice.status is Status.DONE:
                seen.append(time.perf_counter())

        watching = asyncio.create_task(self._visitor.watch(created["voice_id"], note))
        await asyncio.sleep(spoken.within or spoken.seconds)
        ended = time.perf_counter()
        await self._visitor.upload(created, spoken.recording)
        voice = await watching
        if voice.result is None:
            return None
        await self._client.get(voice.result.url)
        return Wait(time.perf_counter() - ended, seen[0] - ended)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time of both converters so far."""
        return {name: cpu_seconds(self._pids[name]) for name in ("live", "convert")}
