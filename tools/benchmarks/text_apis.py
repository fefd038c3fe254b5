"""Compares the APIs of `compat`: texts a second, first sound, and from voice to voice.

All are asked in one process with one thread, in turn and in several rounds, because the speed of a
machine drifts. The formats of 24 kHz differ in the cost of their encoding.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import count
from statistics import mean, median
from typing import Any, Final, NamedTuple

import httpx
import numpy as np
from websockets.asyncio.client import connect
from wyoming.client import AsyncTcpClient
from wyoming.tts import Synthesize, SynthesizeVoice

from infra.local.configuration.names import Ports
from tools.benchmarks.report import PERCENTILES, Cell, Table
from tools.benchmarks.servers import Server, cpu_seconds, measure_quietly, running

ROUNDS: Final = 3
_HEADER_BYTES: Final = 4_000  # more than the header of any format: the bytes after it are sound
_RAW_RATE: Final = 16_000


class Api(NamedTuple):
    """A way to have a text spoken; `ask` returns the seconds to its first sound at its end."""

    title: str
    ask: Callable[[str], Awaitable[float]]


def command(_port: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "functions.compat")


def environment(**more: str) -> dict[str, str]:
    return {
        "HOST": "127.0.0.1",
        "WORKERS": "1",
        "THREADS": "1",
        "CONCURRENCY": "2",
        "BACKLOG": "1000",
        "MAX_WORK_SECONDS": "0",
        "LOG_LEVEL": "WARNING",
        **more,
    }


async def compare_apis(texts: Sequence[str], long: str, seconds: float, times: int) -> Table:
    """Saturate every API with texts of Mei, and measure the first sound of a long one `times`."""
    with Ports() as ports:
        (wyoming_port,) = ports.free(1)
        settings = environment(WYOMING_PORT=str(wyoming_port))
        async with (
            running(command, settings, "/version") as server,
            httpx.AsyncClient(base_url=server.url, timeout=120) as client,
        ):
            apis = await _apis(server, client, wyoming_port)
            firsts = [await _first_sound(server, api, long, times) for api in apis]
            saturations: list[list[Saturation]] = [[] for _ in apis]
            numbers = count()
            for _ in range(ROUNDS):
                for api, found in zip(apis, saturations, strict=True):

                    async def ask(number: int, api: Api = api) -> None:
                        await api.ask(texts[number % len(texts)])

                    measure = partial(saturate, server, ask, numbers, seconds)
                    found.append((await measure_quietly(server, measure))[0])
            converted = await _convert(client, times)
    rates = [mean(each.per_second for each in found) for found in saturations]
    rows: list[tuple[Cell, ...]] = [
        (api.title, rate, rate / rates[0], mean(each.processor for each in found), first * 1000)
        for api, rate, found, first in zip(apis, rates, saturations, firsts, strict=True)
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


async def _first_sound(server: Server, api: Api, text: str, times: int) -> float:
    async def measure() -> float:
        return median([await api.ask(text) for _ in range(times)])

    await api.ask(text)
    first, _ = await measure_quietly(server, measure)
    return first


async def _apis(server: Server, client: httpx.AsyncClient, wyoming_port: int) -> list[Api]:
    speakers = (await client.get("/speakers")).json()
    (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == "メイ")

    async def voicevox(text: str) -> float:
        begin = time.perf_counter()
        query = await client.post("/audio_query", params={"speaker": style, "text": text})
        request = {"params": {"speaker": style}, "json": query.json()}
        return await time_first_sound(client, "/streaming_synthesis", **request) - begin

    return [
        Api("VOICEVOX, `/audio_query` and `/streaming_synthesis`", voicevox),
        *(
            Api(f"OpenAI, {each}", partial(_ask_openai, client, each))
            for each in ("pcm", "wav", "mp3", "opus", "aac", "flac")
        ),
        Api("text in pieces, one WebSocket a text", partial(_ask_in_pieces, server)),
        Api("Wyoming, one connection a text", partial(_ask_wyoming, wyoming_port)),
    ]


async def _ask_openai(client: httpx.AsyncClient, response_format: str, text: str) -> float:
    begin = time.perf_counter()
    body = {"model": "tts-1", "voice": "mei", "input": text, "response_format": response_format}
    return await time_first_sound(client, "/v1/audio/speech", json=body) - begin


async def _ask_in_pieces(server: Server, text: str) -> float:
    address = server.url.replace("http", "ws", 1) + "/speech"
    begin, first = time.perf_counter(), 0.0
    messages = ({"type": "begin", "voice": "mei"}, {"type": "text", "text": text}, {"type": "end"})
    async with connect(address, subprotocols=["voice-avatar.speech.v1"]) as socket:  # type: ignore[list-item] # a NewType
        for message in messages:
            await socket.send(json.dumps(message))
        async for answer in socket:
            if isinstance(answer, bytes):
                first = first or time.perf_counter()
            elif json.loads(answer)["type"] == "ended":
                break
    return first - begin


async def _ask_wyoming(port: int, text: str) -> float:
    begin, first = time.perf_counter(), 0.0
    async with AsyncTcpClient("127.0.0.1", port) as connection:
        await connection.write_event(Synthesize(text, SynthesizeVoice(name="mei")).event())
        while (answer := await connection.read_event()) and answer.type != "audio-stop":
            if answer.type == "audio-chunk":
                first = first or time.perf_counter()
    return first - begin


async def time_first_sound(client: httpx.AsyncClient, path: str, **request: Any) -> float:
    """Read an answer to its end and return the time of its first sound by `perf_counter`."""
    received, first = 0, 0.0
    async with client.stream("POST", path, **request) as answer:
        answer.raise_for_status()
        async for chunk in answer.aiter_raw():
            received += len(chunk)
            if not first and received > _HEADER_BYTES:
                first = time.perf_counter()
    return first or time.perf_counter()


async def _convert(client: httpx.AsyncClient, times: int) -> float:
    text = "昨日の夜から雨が降り続いていて、電車が少し遅れているみたいです。"
    body = {"model": "tts-1", "voice": "mei", "input": text, "response_format": "pcm_16000"}
    spoken = (await client.post("/v1/audio/speech", json=body)).content[: 2 * 5 * _RAW_RATE]
    waits = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        first = await time_first_sound(
            client,
            "/v1/speech-to-speech/ned/stream",
            params={"output_format": "pcm_24000"},
            data={"file_format": "pcm_s16le_16"},
            files={"audio": ("speech.raw", io.BytesIO(spoken))},
        )
        waits.append((first - begin) * 1000)
    return median(waits[1:])


CLIENTS: Final = 6  # the clients of a saturated server: more than it serves at once


class Load(NamedTuple):
    """The answers at a constant rate: milliseconds at `PERCENTILES`, and failures."""

    latency: tuple[float, ...]
    failures: int


class Saturation(NamedTuple):
    """The answers per second, and the server's seconds of CPU time for each."""

    per_second: float
    processor: float


async def apply_load(ask: Callable[[int], Awaitable[object]], rate: float, seconds: float) -> Load:
    begin = time.perf_counter()

    async def one(index: int, due: float) -> float | None:
        try:
            await ask(index)
        except httpx.HTTPError:
            return None
        return 1000 * (time.perf_counter() - begin - due)

    requests = []
    for index in range(round(rate * seconds)):
        due = index / rate
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        requests.append(asyncio.create_task(one(index, due)))
    answers = await asyncio.gather(*requests)
    latencies = [answer for answer in answers if answer is not None] or [float("nan")]
    return Load(tuple(map(float, np.percentile(latencies, PERCENTILES))), answers.count(None))


async def saturate(
    server: Server, ask: Callable[[int], Awaitable[object]], numbers: Iterator[int], seconds: float
) -> Saturation:
    """Let each client ask again as soon as it has an answer; begin nothing after `seconds`.

    The answers of a client count until its last one, so that none counts in part.
    """
    begin, spent = time.perf_counter(), cpu_seconds(server.pid)

    async def client() -> tuple[int, float]:
        answers = 0
        while time.perf_counter() - begin < seconds:
            await ask(next(numbers))
            answers += 1
        return answers, time.perf_counter() - begin

    found = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    processor = (cpu_seconds(server.pid) - spent) / sum(answers for answers, _ in found)
    return Saturation(sum(answers / took for answers, took in found), processor)
