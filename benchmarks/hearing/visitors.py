"""Visitors who speak into the service `live` and hear the character: how old the sound is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.measuring.recordings import CONTENT_TYPE, slices
from infra.local.commands.live_visitor import LiveVisitor

if TYPE_CHECKING:
    import httpx

HEARD_RATE: Final = 24_000
SLICE_SECONDS: Final = 0.06
"""How often a page whose visitor hears the character sends: at each packet of Chromium."""

_BYTES_PER_SAMPLE: Final = 2


@dataclass(slots=True)
class Heard:
    """What one visitor heard.

    Attributes:
        ages: how long ago the middle of each piece of sound was spoken when it came, in seconds.
        seconds: of sound that came.
        is_whole: whether hearing did not end early.
        is_done: whether the voice was converted.
    """

    ages: list[float] = field(default_factory=list)
    seconds: float = 0.0
    is_whole: bool = False
    is_done: bool = False


async def speak(client: httpx.AsyncClient, api: str, recording: bytes, *, hear: bool) -> Heard:
    """Send a recording at the pace of speech.

    Args:
        client: for the request of a ticket.
        api: the address of the api.
        recording: a WebM file.
        hear: whether to hear the character meanwhile.
    """
    answer = await client.post(f"{api}/api/v1/voices", json={"content_type": CONTENT_TYPE})
    live = answer.raise_for_status().json()["live"]
    async with LiveVisitor(live["url"], live["ticket"], hear=hear) as visitor:
        await visitor.start(CONTENT_TYPE)
        ending = asyncio.create_task(visitor.end())
        began = time.perf_counter()
        await _send(visitor, recording, began)
        end = await ending
    heard = Heard(is_done=end is not None and end["type"] == "done")
    heard.is_whole = "hearing_ended" not in visitor.came_at
    for piece in visitor.heard:
        samples = len(piece.samples) // _BYTES_PER_SAMPLE
        spoken = began + (piece.first + samples / 2) / HEARD_RATE
        heard.ages.append(piece.came_at - spoken)
        heard.seconds += samples / HEARD_RATE
    return heard


async def _send(visitor: LiveVisitor, recording: bytes, began: float) -> None:
    for number, piece in enumerate(slices(recording, SLICE_SECONDS), start=1):
        # A slice is there once it has been spoken.
        await asyncio.sleep(began + number * SLICE_SECONDS - time.perf_counter())
        await visitor.send(piece)
    await visitor.finish()
