"""Measures how many texts a second are spoken, and how soon, by a fast voice and by Kokoro's.

The texts are like those of chats.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any, Final, NamedTuple

import httpx
import numpy as np

from tools.benchmarks.report import PERCENTILES, Report, Table
from tools.benchmarks.servers import Server, cpu_seconds, running

TEXTS: Final = (
    "おはよう！",
    "今から帰ります。",
    "ありがとう、助かりました。",
    "明日は何時に集合ですか？",
    "今日は3月5日、気温は12度です。",
    "Discordで話しませんか？",
    "その映画、先週見たけどすごく面白かったよ。",
    "荷物は午後2時から4時の間に届くそうです。",
    "新しいパソコンを買ったので、設定を手伝ってほしいです。",
    "駅前に新しいカフェができたから、週末に一緒に行ってみない？",
    "会議の資料を共有しました。お手数ですが、確認をお願いします。",
    "昨日の夜から雨が降り続いていて、電車が少し遅れているみたいです。",
)
LONG: Final = (
    "昨日の夜から雨が降り続いていて、電車が少し遅れているみたいです。"
    "着いたら連絡しますので、先に始めていてくださいね。"
)
"""A text of about 60 characters."""

SETTINGS: Final = {
    "HOST": "127.0.0.1",
    "WORKERS": "1",
    "THREADS": "1",
    "CONCURRENCY": "2",
    "BACKLOG": "1000",
    "MAX_WORK_SECONDS": "0",
    "LOG_LEVEL": "WARNING",
    "TIMEOUT": "300",
}
_TIMEOUT_SECONDS: Final = 600.0
CLIENTS: Final = 6  # the clients of a saturated server: more than it serves at once
_HEADER_BYTES: Final = 4_000  # more than the header of any format: the bytes after it are sound


class TextPlan(NamedTuple):
    """A voice, its load for some seconds at a rate, its saturation, and repeated first sounds."""

    voice: str
    seconds: float
    rate: float
    saturated: float
    first_sounds: int


FULL: Final = (TextPlan("メイ", 6.0, 8.0, 6.0, 7), TextPlan("ひな", 12.0, 0.5, 15.0, 3))
QUICK: Final = (TextPlan("メイ", 3.0, 8.0, 4.0, 3), TextPlan("ひな", 6.0, 0.5, 8.0, 1))


class Load(NamedTuple):
    """The answers at a constant rate: milliseconds at `PERCENTILES`, and failures."""

    latency: tuple[float, ...]
    failures: int


class Saturation(NamedTuple):
    """The answers per second, and the server's seconds of CPU time for each."""

    per_second: float
    processor: float


class Measured(NamedTuple):
    load: Load
    saturation: Saturation
    first_sound: float


async def run(*, quick: bool) -> Report:
    plans = QUICK if quick else FULL
    async with (
        running(_command, SETTINGS, "/version") as server,
        httpx.AsyncClient(base_url=server.url, timeout=_TIMEOUT_SECONDS) as client,
    ):
        measured = {plan: await _measure(plan, server, client) for plan in plans}
        megabytes = server.megabytes()
    loads = Table(
        "texts at a constant rate, `/audio_query` and `/synthesis`",
        ("voice", "texts/s", *(f"p{each} (ms)" for each in PERCENTILES), "failures"),
        tuple(
            (plan.voice, plan.rate, *each.load.latency, each.load.failures)
            for plan, each in measured.items()
        ),
    )
    saturations = Table(
        "saturation and first sound",
        (
            "voice",
            "saturation (texts/s)",
            "processor time of a text (s)",
            "first sound of 60 characters (ms)",
        ),
        tuple((plan.voice, *each.saturation, each.first_sound) for plan, each in measured.items()),
    )
    facts = {"memory with both voices loaded, MB": megabytes}
    return Report("text", (loads, saturations), facts)


def _command(_port: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "functions.compat")


async def _measure(plan: TextPlan, server: Server, client: httpx.AsyncClient) -> Measured:
    speakers = (await client.get("/speakers")).json()
    (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == plan.voice)
    bot = _Bot(client, style)
    first_sound = await bot.first_sound(plan.first_sounds)
    load = await apply_load(bot.ask, plan.rate, plan.seconds)
    saturation = await saturate(server, bot.ask, plan.saturated)
    return Measured(load, saturation, first_sound)


class _Bot:
    def __init__(self, client: httpx.AsyncClient, style: int) -> None:
        self._client = client
        self._style = style

    async def ask(self, index: int) -> None:
        query = await self._query(TEXTS[index % len(TEXTS)])
        parameters = {"speaker": self._style}
        answer = await self._client.post("/synthesis", params=parameters, json=query)
        answer.raise_for_status()

    async def first_sound(self, times: int) -> float:
        query, waits = await self._query(LONG), []
        for _ in range(times + 1):
            begin = time.perf_counter()
            parameters: dict[str, str | int] = {"speaker": self._style, "stream": "true"}
            first = await time_first_sound(
                self._client, "/synthesis", params=parameters, json=query
            )
            waits.append((first - begin) * 1000)
        return median(waits[1:])

    async def _query(self, text: str) -> object:
        parameters: dict[str, str | int] = {"speaker": self._style, "text": text}
        answer = await self._client.post("/audio_query", params=parameters)
        return answer.raise_for_status().json()


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
    server: Server, ask: Callable[[int], Awaitable[object]], seconds: float
) -> Saturation:
    """Let each client ask again as soon as it has an answer; begin nothing after `seconds`.

    The answers of a client count until its last one, so that none counts in part.
    """
    begin, spent, numbers = time.perf_counter(), cpu_seconds(server.pid), itertools.count()

    async def client() -> tuple[int, float]:
        answers = 0
        while time.perf_counter() - begin < seconds:
            await ask(next(numbers))
            answers += 1
        return answers, time.perf_counter() - begin

    found = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    processor = (cpu_seconds(server.pid) - spent) / sum(answers for answers, _ in found)
    return Saturation(sum(answers / took for answers, took in found), processor)


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
