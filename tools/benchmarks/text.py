"""Measures how many texts a second are spoken, and how soon.

The texts are like those of chats. The AIVMX voice has the size of a real one and random weights.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import httpx

from tools.benchmarks.random_text_voice import CHARACTER, LAYERS, write_characters
from tools.benchmarks.report import PERCENTILES, Report, Table
from tools.benchmarks.servers import Server, measure_quietly, running
from tools.benchmarks.text_apis import (
    Load,
    Saturation,
    apply_load,
    command,
    compare_apis,
    environment,
    saturate,
    time_first_sound,
)

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

_TIMEOUT_SECONDS: Final = 600.0


class Plan(NamedTuple):
    """A voice, its load for some seconds at a rate, its saturation, and repeated first sounds."""

    voice: str
    seconds: float
    rate: float
    saturated: float
    first_sounds: int


FULL: Final = (Plan("メイ", 6.0, 8.0, 6.0, 7), Plan(CHARACTER, 12.0, 0.5, 15.0, 1))
QUICK: Final = (Plan("メイ", 3.0, 8.0, 4.0, 3), Plan(CHARACTER, 6.0, 0.5, 8.0, 1))
QUICK_LAYERS: Final = 4


class Measured(NamedTuple):
    """The figures of a voice, and the largest share of the processors that other programs took."""

    load: Load
    saturation: Saturation
    first_sound: float
    others: float


async def run(*, quick: bool) -> Report:
    plans, layers = (QUICK, QUICK_LAYERS) if quick else (FULL, LAYERS)
    with tempfile.TemporaryDirectory(prefix="characters-") as folder:
        write_characters(Path(folder), layers)
        more = {"CHARACTERS_DIR": folder, "MAX_BUNDLE_BYTES": str(1 << 32), "TIMEOUT": "300"}
        async with (
            running(command, environment(**more), "/version") as server,
            httpx.AsyncClient(base_url=server.url, timeout=_TIMEOUT_SECONDS) as client,
        ):
            measured = {plan: await _measure(plan, server, client) for plan in plans}
            megabytes = server.megabytes()
    apis = await compare_apis(TEXTS, LONG, plans[0].saturated / 2, plans[0].first_sounds)
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
    others = max(each.others for each in measured.values())
    return Report(
        "text",
        (loads, saturations, apis),
        facts={
            "memory with both voices loaded, MB": megabytes,
            "largest share of the processors that other programs took during a row": others,
        },
    )


async def _measure(plan: Plan, server: Server, client: httpx.AsyncClient) -> Measured:
    speakers = (await client.get("/speakers")).json()
    (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == plan.voice)
    bot = _Bot(client, style)
    first, *shares = await measure_quietly(server, partial(bot.first_sound, plan.first_sounds))
    load, share = await measure_quietly(
        server, partial(apply_load, bot.ask, plan.rate, plan.seconds)
    )
    saturation, last = await measure_quietly(
        server, partial(saturate, server, bot.ask, itertools.count(), plan.saturated)
    )
    return Measured(load, saturation, first, max(*shares, share, last))


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
