"""How the APIs of `compat` compare: texts a second, first sound, and from voice to voice.

All are asked in one process with one thread, one after the other. The formats of 24 kHz differ in
what encoding them costs.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx
from websockets.asyncio.client import connect

from benchmarks.measuring.report import Table
from benchmarks.measuring.servers import PORT, python, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.measuring.report import Cell
    from benchmarks.measuring.servers import Server

    Ask = Callable[[str], Awaitable[float]]

CLIENTS: Final = 6
_HEADER_BYTES: Final = 4_000
"""More than the header of any format: what comes after it is heard."""

_RAW_RATE: Final = 16_000


@dataclass(frozen=True, slots=True)
class Door:
    """One way to have a text spoken.

    Attributes:
        title: shown.
        ask: has a text spoken to its end; returns the seconds to its first sound.
    """

    title: str
    ask: Ask


async def compare_doors(texts: Sequence[str], long: str, seconds: float, times: int) -> Table:
    """Measure every API with the built-in voice.

    Args:
        texts: that are asked for in turn.
        long: whose first sound is waited for.
        seconds: for how long each is asked for as much as it speaks.
        times: how often the first sound is waited for.
    """
    environment = {
        "HOST": "127.0.0.1",
        "PORT": PORT,
        "WORKERS": "1",
        "THREADS": "1",
        "CONCURRENCY": "2",
        "BACKLOG": "1000",
        "MAX_REQUESTS": "0",
        "LOG_LEVEL": "WARNING",
    }
    async with (
        running(python("functions.compat"), environment, "/version") as server,
        httpx.AsyncClient(base_url=server.url, timeout=120) as client,
    ):
        doors = await _doors(server, client)
        rows: list[tuple[Cell, ...]] = []
        for door in doors:
            await door.ask(long)
            first = median([await door.ask(long) for _ in range(times)])
            rate = await _saturation(door, texts, seconds)
            usual = rows[0][1] if rows else rate
            rows.append((door.title, rate, rate / float(usual or 1), first * 1000))
        rows.append(("ElevenLabs, 5 s of speech to Ned", None, None, await _convert(client, times)))
    columns = (
        "API, Mei",
        "saturation (texts/s)",
        "of VOICEVOX's",
        "first sound of 60 characters, or answer (ms)",
    )
    return Table("the APIs, 1 process, 1 thread", columns, tuple(rows))


async def _doors(server: Server, client: httpx.AsyncClient) -> list[Door]:
    speakers = (await client.get("/speakers")).json()
    style = speakers[0]["styles"][0]["id"]

    async def voicevox(text: str) -> float:
        begin = time.perf_counter()
        query = await client.post("/audio_query", params={"speaker": style, "text": text})
        request = {"params": {"speaker": style}, "json": query.json()}
        return await _first(client, "/streaming_synthesis", **request) - begin

    def openai(response_format: str) -> Ask:
        async def ask(text: str) -> float:
            begin = time.perf_counter()
            body = {"model": "tts-1", "voice": "mei", "input": text}
            body |= {"response_format": response_format}
            return await _first(client, "/v1/audio/speech", json=body) - begin

        return ask

    async def in_pieces(text: str) -> float:
        address = server.url.replace("http", "ws", 1) + "/speech"
        begin, first = time.perf_counter(), 0.0
        async with connect(address, subprotocols=["voice-avatar.speech.v1"]) as socket:  # type: ignore[list-item] # a NewType
            for said in ({"type": "begin"}, {"type": "text", "text": text}, {"type": "end"}):
                await socket.send(json.dumps(said))
            async for message in socket:
                if isinstance(message, bytes):
                    first = first or time.perf_counter()
                elif json.loads(message)["type"] == "ended":
                    break
        return first - begin

    return [
        Door("VOICEVOX, `/audio_query` and `/streaming_synthesis`", voicevox),
        *(Door(f"OpenAI, {each}", openai(each)) for each in ("wav", "mp3", "opus")),
        Door("text in pieces, one WebSocket a text", in_pieces),
    ]


async def _first(client: httpx.AsyncClient, path: str, **request: Any) -> float:
    """Read an answer to its end; when its first sound came."""
    received, first = 0, 0.0
    async with client.stream("POST", path, **request) as answer:
        answer.raise_for_status()
        async for chunk in answer.aiter_raw():
            received += len(chunk)
            if not first and received > _HEADER_BYTES:
                first = time.perf_counter()
    return first or time.perf_counter()


async def _saturation(door: Door, texts: Sequence[str], seconds: float) -> float:
    begin, asked = time.perf_counter(), iter(range(1 << 30))

    async def client() -> float:
        answers = 0
        while time.perf_counter() - begin < seconds:
            await door.ask(texts[next(asked) % len(texts)])
            answers += 1
        return answers / (time.perf_counter() - begin)

    return sum(await asyncio.gather(*(client() for _ in range(CLIENTS))))


async def _convert(client: httpx.AsyncClient, times: int) -> float:
    """Return the milliseconds from sending 5 s of speech to its first sound in another voice."""
    text = "昨日の夜から雨が降り続いていて、電車が少し遅れているみたいです。"
    body = {"model": "tts-1", "voice": "mei", "input": text, "response_format": "pcm_16000"}
    spoken = (await client.post("/v1/audio/speech", json=body)).content[: 2 * 5 * _RAW_RATE]
    waits = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        first = await _first(
            client,
            "/v1/speech-to-speech/ned/stream",
            params={"output_format": "pcm_24000"},
            data={"file_format": "pcm_s16le_16"},
            files={"audio": ("speech.raw", io.BytesIO(spoken))},
        )
        waits.append((first - begin) * 1000)
    return median(waits[1:])
