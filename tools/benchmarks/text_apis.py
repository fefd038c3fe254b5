"""How the APIs of `compat` compare: texts a second, first sound, and from voice to voice.

All are asked in one process with one thread, in turn and in several rounds, because the speed of a
machine drifts. The formats of 24 kHz differ in what encoding them costs.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final

import httpx
from websockets.asyncio.client import connect
from wyoming.client import AsyncTcpClient
from wyoming.tts import Synthesize, SynthesizeVoice

from infra.local.configuration.names import Ports
from tools.benchmarks.report import Table
from tools.benchmarks.servers import PORT, python, running, undisturbed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tools.benchmarks.report import Cell
    from tools.benchmarks.servers import Server


CLIENTS: Final = 6
"""So many ask at once, each for its next text when it has heard the last one: more than are spoken
at once, so that nobody waits for them."""


@dataclass(frozen=True, slots=True)
class SpokenTexts:
    """What was spoken.

    Attributes:
        processor: the service's processor time for each of them, in seconds.
    """

    a_second: float
    processor: float


async def saturate(
    server: Server,
    ask: Callable[[int], Awaitable[object]],
    numbers: Iterator[int],
    seconds: float,
) -> SpokenTexts:
    """Ask for as much as is spoken.

    Each client's answers count until its last one, so that no text counts in part.
    """
    begin, spent = time.perf_counter(), server.cpu_seconds()

    async def client() -> tuple[int, float]:
        answers = 0
        while time.perf_counter() - begin < seconds:
            await ask(next(numbers))
            answers += 1
        return answers, time.perf_counter() - begin

    heard = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    processor = (server.cpu_seconds() - spent) / sum(answers for answers, _ in heard)
    return SpokenTexts(sum(answers / took for answers, took in heard), processor)


if TYPE_CHECKING:
    Ask = Callable[[str], Awaitable[float]]


SERVICE: Final = "functions.compat"
ENVIRONMENT: Final = {
    "HOST": "127.0.0.1",
    "PORT": PORT,
    "WORKERS": "1",
    "THREADS": "1",
    "CONCURRENCY": "2",
    "BACKLOG": "1000",
    "MAX_WORK_SECONDS": "0",
    "LOG_LEVEL": "WARNING",
}
ROUNDS: Final = 3
_HEADER_BYTES: Final = 4_000
"""More than the header of any format: what comes after it is heard."""

_RAW_RATE: Final = 16_000


@dataclass(frozen=True, slots=True)
class SpeechApi:
    """One way to have a text spoken.

    Attributes:
        ask: has a text spoken to its end; returns the seconds to its first sound.
    """

    title: str
    ask: Ask


async def compare_apis(texts: Sequence[str], long: str, seconds: float, times: int) -> Table:
    """Measure every API with the built-in voice."""
    with Ports() as ports:
        (wyoming_port,) = ports.free(1)
        environment = ENVIRONMENT | {"WYOMING_PORT": str(wyoming_port)}
        async with (
            running(python(SERVICE), environment, "/version") as server,
            httpx.AsyncClient(base_url=server.url, timeout=120) as client,
        ):
            doors = await _doors(server, client, wyoming_port)
            firsts = [await _first_sound(server, door, long, times) for door in doors]
            spoken: list[list[SpokenTexts]] = [[] for _ in doors]
            numbers = count()
            for _ in range(ROUNDS):
                for door, found in zip(doors, spoken, strict=True):

                    async def ask(number: int, door: SpeechApi = door) -> None:
                        await door.ask(texts[number % len(texts)])

                    measure = partial(saturate, server, ask, numbers, seconds)
                    found.append((await undisturbed(server, measure))[0])
            converted = await _convert(client, times)
    rates = [mean(each.a_second for each in found) for found in spoken]
    rows: list[tuple[Cell, ...]] = [
        (
            door.title,
            rate,
            rate / rates[0],
            mean(each.processor for each in found),
            first * 1000,
        )
        for door, rate, found, first in zip(doors, rates, spoken, firsts, strict=True)
    ]
    rows.append(("ElevenLabs, 5 s of speech to Ned", None, None, None, converted))
    columns = (
        "API, Mei",
        "saturation (texts/s)",
        "of VOICEVOX's",
        "processor time of a text (s)",
        "first sound of 60 characters, or answer (ms)",
    )
    return Table("the APIs, 1 process, 1 thread", columns, tuple(rows))


async def _first_sound(server: Server, door: SpeechApi, text: str, times: int) -> float:
    async def measure() -> float:
        return median([await door.ask(text) for _ in range(times)])

    await door.ask(text)
    first, _ = await undisturbed(server, measure)
    return first


async def _doors(server: Server, client: httpx.AsyncClient, wyoming_port: int) -> list[SpeechApi]:
    speakers = (await client.get("/speakers")).json()
    (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == "メイ")

    async def voicevox(text: str) -> float:
        begin = time.perf_counter()
        query = await client.post("/audio_query", params={"speaker": style, "text": text})
        request = {"params": {"speaker": style}, "json": query.json()}
        return await _first(client, "/streaming_synthesis", **request) - begin

    return [
        SpeechApi("VOICEVOX, `/audio_query` and `/streaming_synthesis`", voicevox),
        *(
            SpeechApi(f"OpenAI, {each}", partial(_ask_openai, client, each))
            for each in ("pcm", "wav", "mp3", "opus", "aac", "flac")
        ),
        SpeechApi("text in pieces, one WebSocket a text", partial(_ask_in_pieces, server)),
        SpeechApi("Wyoming, one connection a text", partial(_ask_wyoming, wyoming_port)),
    ]


async def _ask_openai(client: httpx.AsyncClient, response_format: str, text: str) -> float:
    begin = time.perf_counter()
    body = {"model": "tts-1", "voice": "mei", "input": text, "response_format": response_format}
    return await _first(client, "/v1/audio/speech", json=body) - begin


async def _ask_in_pieces(server: Server, text: str) -> float:
    address = server.url.replace("http", "ws", 1) + "/speech"
    begin, first = time.perf_counter(), 0.0
    messages = ({"type": "begin", "voice": "mei"}, {"type": "text", "text": text}, {"type": "end"})
    async with connect(address, subprotocols=["voice-avatar.speech.v1"]) as socket:  # type: ignore[list-item] # a NewType
        for said in messages:
            await socket.send(json.dumps(said))
        async for message in socket:
            if isinstance(message, bytes):
                first = first or time.perf_counter()
            elif json.loads(message)["type"] == "ended":
                break
    return first - begin


async def _ask_wyoming(port: int, text: str) -> float:
    begin, first = time.perf_counter(), 0.0
    async with AsyncTcpClient("127.0.0.1", port) as connection:
        await connection.write_event(Synthesize(text, SynthesizeVoice(name="mei")).event())
        while (said := await connection.read_event()) and said.type != "audio-stop":
            if said.type == "audio-chunk":
                first = first or time.perf_counter()
    return first - begin


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
