"""Visitors who speak into the service `live` and hear the character: how old the sound is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from benchmarks.measuring.recordings import CONTENT_TYPE
from functions.convert.live.protocol import SUBPROTOCOL

if TYPE_CHECKING:
    import httpx

HEARD_RATE: Final = 24_000
SLICE_SECONDS: Final = 0.1
"""How often a page hands out what its recorder has."""

_FIRST_SAMPLE: Final = struct.Struct("<I")
_BYTES_PER_SAMPLE: Final = 2


@dataclass(slots=True)
class Heard:
    """What one visitor heard.

    Attributes:
        ages: how long ago the middle of each piece of sound was spoken when it came, in seconds.
        seconds: of sound that came.
        ended: why hearing ended early, or "".
        is_done: whether the voice was converted.
    """

    ages: list[float] = field(default_factory=list)
    seconds: float = 0.0
    ended: str = ""
    is_done: bool = False


async def speak(
    client: httpx.AsyncClient, api: str, recording: bytes, seconds: float, *, hear: bool
) -> Heard:
    """Send a recording at the pace of speech.

    Args:
        client: for the request of a ticket.
        api: the address of the api.
        recording: a WebM file.
        seconds: how long it lasts.
        hear: whether to hear the character meanwhile.
    """
    answer = await client.post(f"{api}/api/v1/voices", json={"content_type": CONTENT_TYPE})
    live = answer.raise_for_status().json()["live"]
    heard = Heard()
    async with connect(
        live["url"], subprotocols=[Subprotocol(SUBPROTOCOL)], compression=None
    ) as socket:
        start = {"ticket": live["ticket"], "content_type": CONTENT_TYPE, "hear": hear}
        await socket.send(json.dumps({"type": "start", **start}))
        began = asyncio.get_running_loop().time()
        listening = asyncio.create_task(_listen(socket, heard, began))
        await _send(socket, recording, seconds, began)
        await listening
    return heard


async def _send(socket: Any, recording: bytes, seconds: float, began: float) -> None:
    slices = max(round(seconds / SLICE_SECONDS), 1)
    for number in range(slices):
        begin, end = (len(recording) * n // slices for n in (number, number + 1))
        # A slice is there once it has been spoken.
        due = began + (number + 1) * SLICE_SECONDS
        await asyncio.sleep(due - asyncio.get_running_loop().time())
        await socket.send(recording[begin:end])
    digest = hashlib.sha256(recording).hexdigest()
    await socket.send(json.dumps({"type": "end", "bytes": len(recording), "sha256": digest}))


async def _listen(socket: Any, heard: Heard, began: float) -> None:
    is_result = False
    async for message in socket:
        if isinstance(message, str):
            fields = json.loads(message)
            is_result = is_result or fields["type"] == "converted"
            heard.is_done = heard.is_done or fields["type"] == "done"
            if fields["type"] == "hearing_ended":
                heard.ended = fields["reason"]
        elif not is_result:
            (first,) = _FIRST_SAMPLE.unpack_from(message)
            samples = (len(message) - _FIRST_SAMPLE.size) // _BYTES_PER_SAMPLE
            spoken = began + (first + samples / 2) / HEARD_RATE
            heard.ages.append(asyncio.get_running_loop().time() - spoken)
            heard.seconds += samples / HEARD_RATE
