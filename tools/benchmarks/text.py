"""Measures how many texts a second are spoken, how soon, and what Kokoro costs.

The texts are like those of chats. Mei speaks Japanese by herself; Kokoro speaks Hina's texts.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import tempfile
import time
import wave
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import httpx
import numpy as np

from infra.local.configuration.options import ROOT
from shared.speech.engines.kokoro_packages import REQUIREMENTS
from tools.benchmarks.report import PERCENTILES, Report, Table
from tools.benchmarks.servers import Server, cpu_seconds, family, running

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
ENGLISH: Final = (
    "Good morning!",
    "I'm on my way home.",
    "Thanks, that helped a lot.",
    "What time do we meet tomorrow?",
    "It's March 5th, and it's 12 degrees outside.",
    "Do you want to talk on Discord?",
    "I saw that movie last week, and it was really good.",
    "The parcel should arrive between 2 and 4 in the afternoon.",
    "I bought a new computer, and I'd like you to help me set it up.",
    "A new café opened near the station. Shall we go there this weekend?",
    "I've shared the slides for the meeting. Please have a look at them.",
    "It has been raining since last night, and the trains seem to be a little late.",
)
LONG: Final = (
    "昨日の夜から雨が降り続いていて、電車が少し遅れているみたいです。"
    "着いたら連絡しますので、先に始めていてくださいね。"
)
"""A text of about 60 characters."""

KEPT: Final = ("us_*.json", "checkpoint20.npz", "part.bin", "voices_ja.npz", "vocab.json")
"""What the Dockerfile of the converter keeps of Kokoro's packages."""

LONG_ENGLISH: Final = "It has been raining since last night. I'll call you at noon."

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
    texts: Sequence[str] = TEXTS

    @property
    def name(self) -> str:
        return self.voice + ", English" * (self.texts is ENGLISH)


FULL: Final = (
    TextPlan("メイ", 6.0, 8.0, 6.0, 7),
    TextPlan("ひな", 12.0, 0.5, 15.0, 3),
    TextPlan("ひな", 12.0, 0.5, 15.0, 3, ENGLISH),
)
QUICK: Final = (
    TextPlan("メイ", 3.0, 8.0, 4.0, 3),
    TextPlan("ひな", 6.0, 0.5, 8.0, 1),
    TextPlan("ひな", 6.0, 0.5, 8.0, 1, ENGLISH),
)


class Load(NamedTuple):
    """The answers at a constant rate: milliseconds at `PERCENTILES`, and failures."""

    latency: tuple[float, ...]
    failures: int


class Saturation(NamedTuple):
    """The answers per second, the server's processor time for each, and the speech of each."""

    per_second: float
    processor: float
    speech: float


class Measured(NamedTuple):
    load: Load
    saturation: Saturation
    first_sound: float


async def run(*, quick: bool) -> Report:
    plans = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as empty:
        _, without = await measure(plans[:1], {"KOKORO_DIR": empty})
    measured, with_kokoro = await measure(plans, {})
    loads = Table(
        "texts at a constant rate, `/audio_query` and `/synthesis`",
        ("voice", "texts/s", *(f"p{each} (ms)" for each in PERCENTILES), "failures"),
        tuple(
            (plan.name, plan.rate, *each.load.latency, each.load.failures)
            for plan, each in measured.items()
        ),
    )
    saturations = Table(
        "saturation and first sound",
        (
            "voice",
            "saturation (texts/s)",
            "processor time of a text (s)",
            "speech of a text (s)",
            "processor time of a second of speech (s)",
            "first sound of 60 characters (ms)",
        ),
        tuple(
            (
                plan.name,
                *each.saturation,
                each.saturation.processor / each.saturation.speech,
                each.first_sound,
            )
            for plan, each in measured.items()
        ),
    )
    costs = Table(
        "A server of typed text with and without Kokoro",
        ("what", "with", "without", "more"),
        tuple(
            (what, figure, without[what], figure - without[what])
            for what, figure in with_kokoro.items()
        ),
    )
    return Report("text", (loads, saturations, costs))


async def measure(
    plans: Sequence[TextPlan], environment: Mapping[str, str]
) -> tuple[dict[TextPlan, Measured], dict[str, float]]:
    """Return the findings of each plan, and what the server took."""
    async with (
        running(_command, {**SETTINGS, **environment}, "/version") as server,
        httpx.AsyncClient(base_url=server.url, timeout=_TIMEOUT_SECONDS) as client,
    ):
        start = cpu_seconds(server.pid)
        measured = {plan: await _measure(plan, server, client) for plan in plans}
        most = max(most_megabytes(process.pid) for process in family(server.pid))
        return measured, {
            "processor time of a start, with the first texts (s)": start,
            "memory after some texts (MB)": server.megabytes(),
            "most memory of its largest process (MB)": most,
            "files in the image (MB)": 0.0 if environment else kokoro_megabytes(),
        }


def kokoro_megabytes() -> float:
    """Return the size of Kokoro's files that the image keeps."""
    names = re.findall(r"^([\w-]+)==", (ROOT / REQUIREMENTS).read_text(), re.MULTILINE)
    origins = [found.origin for name in names if (found := find_spec(name.replace("-", "_")))]
    folders = [Path(origin).parent for origin in origins if origin]
    files = {file for folder in folders for name in KEPT for file in folder.rglob(name)}
    return sum(file.stat().st_size for file in files) / 1e6


def most_megabytes(pid: int) -> float:
    """Return the most memory that a process has had, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def _command(_port: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "functions.compat")


async def _measure(plan: TextPlan, server: Server, client: httpx.AsyncClient) -> Measured:
    speakers = (await client.get("/speakers")).json()
    (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == plan.voice)
    bot = _Bot(client, style, plan.texts)
    first_sound = await bot.first_sound(plan.first_sounds)
    load = await apply_load(bot.ask, plan.rate, plan.seconds)
    saturation = await saturate(server, bot.ask, plan.saturated)
    return Measured(load, saturation, first_sound)


class _Bot:
    def __init__(self, client: httpx.AsyncClient, style: int, texts: Sequence[str]) -> None:
        self._client = client
        self._style = style
        self._texts = texts

    async def ask(self, index: int) -> float:
        """Have a text spoken and return its seconds."""
        query = await self._query(self._texts[index % len(self._texts)])
        parameters = {"speaker": self._style}
        answer = await self._client.post("/synthesis", params=parameters, json=query)
        answer.raise_for_status()
        with wave.open(BytesIO(answer.content)) as sound:
            return float(sound.getnframes() / sound.getframerate())

    async def first_sound(self, times: int) -> float:
        text = LONG if self._texts is TEXTS else LONG_ENGLISH
        query, waits = await self._query(text), []
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
    server: Server, ask: Callable[[int], Awaitable[float]], seconds: float
) -> Saturation:
    """Let each client ask again as soon as it has an answer; begin nothing after `seconds`.

    The answers of a client count until its last one, so that none counts in part.
    """
    begin, spent, numbers = time.perf_counter(), cpu_seconds(server.pid), itertools.count()

    async def client() -> tuple[list[float], float]:
        spoken = []
        while time.perf_counter() - begin < seconds:
            spoken.append(await ask(next(numbers)))
        return spoken, time.perf_counter() - begin

    found = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    spoken = [each for answers, _ in found for each in answers]
    processor = (cpu_seconds(server.pid) - spent) / len(spoken)
    per_second = sum(len(answers) / took for answers, took in found)
    return Saturation(per_second, processor, sum(spoken) / len(spoken))


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
