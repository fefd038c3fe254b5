"""How long the visitor of a slow voice waits after the end of the speech.

The voice is an RVC voice of full size with random weights. The same recordings go by the upload
path, through `live` when nothing is converted before their end, and through `live` as it is.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.measuring.processes import cpu_seconds
from benchmarks.measuring.recordings import (
    CONTENT_TYPE,
    SAMPLE_RATE,
    SLICE_SECONDS,
    encoded,
    speech,
)
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.voice_journeys import changed_environment, visited_cloud
from benchmarks.rvc.bundle import CHARACTER, write_characters
from infra.local.commands.live_visitor import LiveVisitor
from infra.local.commands.visitor import Visitor, Wish
from shared.voices.voice import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from benchmarks.measuring.report import Cell, Options
    from infra.local.cloud.cloud import LocalCloud

PAUSE_SECONDS: Final = 1.0

RECORDINGS: Final = {
    "5 s without a pause": (5.0,),
    "3 s, a pause, 2 s": (3.0, 2.0),
    "3 s, a pause, 3 s, a pause, 2 s": (3.0, 3.0, 2.0),
}
"""How long is spoken between pauses."""

UPLOAD: Final = "upload"
AT_THE_END: Final = "live, all converted at the end"
AHEAD: Final = "live"
"""The ways that are compared."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One voice.

    Attributes:
        seconds: from the end of the speech until the result is there.
        cpu: processor time of the service, in seconds.
    """

    seconds: float
    cpu: float


Waits = dict[tuple[str, str], list[Wait]]
"""By recording and way."""

Speak = Callable[[bytes, float], Awaitable[Wait]]
"""Takes a recording and its seconds."""


class SpeakingVisitor:
    """A visitor who speaks to one local cloud.

    Args:
        cloud: the local cloud.
        client: sends the visitor's HTTP requests.
    """

    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self._cloud = cloud
        self._client = client
        self._visitor = Visitor(client, cloud.addresses.api, cloud.voices)

    async def live(self, recording: bytes, seconds: float) -> Wait:
        """Speak to `live`, at the pace of speech."""
        before = self._cpu("live")
        created = await self._visitor.create(Wish(CHARACTER), CONTENT_TYPE)
        piece = math.ceil(len(recording) * SLICE_SECONDS / seconds)
        async with LiveVisitor(created["live"]["url"], created["live"]["ticket"]) as visitor:
            await visitor.speak(recording, CONTENT_TYPE, seconds=seconds, piece=piece)
            ended = time.perf_counter()
            await visitor.end()
        return Wait(visitor.came_at["sound"] - ended, self._cpu("live") - before)

    async def upload(self, recording: bytes, seconds: float) -> Wait:
        """Speak, upload the recording, and fetch the result."""
        before = self._cpu("convert")
        created = await self._visitor.create(Wish(CHARACTER), CONTENT_TYPE)
        watching = asyncio.create_task(self._visitor.watch(created["voice_id"], lambda _: None))
        await asyncio.sleep(seconds)
        ended = time.perf_counter()
        await self._visitor.upload(created, recording)
        voice = await watching
        if voice.status is not Status.DONE or voice.result is None:
            raise RuntimeError(f"the voice ended in {voice.error}")
        await self._client.get(voice.result.url)
        return Wait(time.perf_counter() - ended, self._cpu("convert") - before)

    def _cpu(self, service: str) -> float:
        return cpu_seconds(self._cloud.pids[service])


async def run(options: Options) -> Report:
    """Measure the waits on all ways."""
    voices = 1 if options.quick else 3
    waits: Waits = {}
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        write_characters(Path(name))
        # Without places for recordings that are decoded while they come, nothing is done ahead.
        for way, changes in ((AT_THE_END, {"HEARINGS": "0"}), (AHEAD, {})):
            with changed_environment({"CHARACTERS_DIR": name, **changes}):
                async with visited_cloud(embedded=False) as visitors:
                    speaking = SpeakingVisitor(visitors.cloud, visitors.client)
                    ways: dict[str, Speak] = {way: speaking.live}
                    if way == AHEAD:
                        ways[UPLOAD] = speaking.upload
                    await _measure(ways, voices, waits)
    return _report(waits)


async def _measure(ways: Mapping[str, Speak], voices: int, waits: Waits) -> None:
    made = {name: _recording(parts) for name, parts in RECORDINGS.items()}
    for speak in ways.values():
        await speak(*made["5 s without a pause"])
    for _ in range(voices):
        for name, recording in made.items():
            for way, speak in ways.items():
                waits.setdefault((name, way), []).append(await speak(*recording))


def _recording(parts: Sequence[float]) -> tuple[bytes, float]:
    """Return a recording and its length in seconds."""
    pause = np.zeros(round(PAUSE_SECONDS * SAMPLE_RATE), np.float32)
    pieces = [piece for part in parts for piece in (speech(part), pause)][:-1]
    samples = np.concatenate(pieces)
    return encoded(samples), len(samples) / SAMPLE_RATE


def _report(waits: Waits) -> Report:
    ways = (UPLOAD, AT_THE_END, AHEAD)

    def row(name: str) -> tuple[Cell, ...]:
        found = [waits[name, way] for way in ways]
        seconds = [median(wait.seconds for wait in each) for each in found]
        return (name, *seconds, *(median(wait.cpu for wait in each) for each in found))

    table = Table(
        "A slow voice: from the end of the speech until the result is there, s, medians",
        ("recording", *ways, *(f"processor time: {way}" for way in ways)),
        tuple(row(name) for name in RECORDINGS),
    )
    longest = list(RECORDINGS)[-1]
    ratio = median(wait.seconds for wait in waits[longest, AHEAD]) / median(
        wait.seconds for wait in waits[longest, AT_THE_END]
    )
    return Report("ahead", (table,), ratios={"with two pauses, ahead / all at the end": ratio})
