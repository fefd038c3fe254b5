"""How many texts a second are spoken, how soon, and with how much memory.

Texts as people send them in chats, at a constant rate whatever becomes of those before, and as many
as are spoken. The AIVMX voice has the size of a real one and random weights.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import httpx

from benchmarks.measuring.load import SUCCESSES, apply_load
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.servers import PORT, python, running
from benchmarks.measuring.undisturbed import undisturbed
from benchmarks.text.doors import compare_doors
from benchmarks.text.graphs import CHARACTER, LAYERS, write_characters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measuring.report import Cell, Options
    from benchmarks.measuring.servers import Server

SERVICE: Final = "functions.compat"
MEI: Final = "メイ"
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
"""A text of 60 characters, give or take."""

SECONDS: Final = 120.0
OVERLOAD: Final = 3.0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How the service runs.

    Attributes:
        title: shown.
        workers: processes.
        threads: of each network.
        at_once: texts that are spoken at once.
    """

    title: str
    workers: int
    threads: int
    at_once: int


ARRANGEMENTS: Final = (
    Arrangement("1 process, 1 thread", 1, 1, 2),
    Arrangement("1 process, 2 threads", 1, 2, 1),
    Arrangement("2 processes, 1 thread", 2, 1, 2),
    Arrangement("2 processes, 2 threads", 2, 2, 2),
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        arrangements: how the service runs.
        seconds: of each load, for Mei and for the AIVMX voice.
        rates: texts a second that are asked of each.
        saturated: seconds for which as much is asked of each as it speaks.
        firsts: how often the first sound of a long text is waited for.
        layers: of the BERT.
    """

    arrangements: Sequence[Arrangement]
    seconds: tuple[float, float]
    rates: tuple[Sequence[float], Sequence[float]]
    saturated: tuple[float, float]
    firsts: tuple[int, int]
    layers: int = LAYERS


CLIENTS: Final = 6
"""So many ask at once, each for its next text when it has heard the last one: more than are spoken
at once, so that nobody waits for them."""

FULL: Final = Extent(ARRANGEMENTS, (6.0, 12.0), ((8.0,), (0.5,)), (6.0, 15.0), (7, 1))
QUICK: Final = Extent(
    (ARRANGEMENTS[0], ARRANGEMENTS[2]),
    (3.0, 6.0),
    ((8.0,), (0.5,)),
    (4.0, 8.0),
    (3, 1),
    layers=4,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of one arrangement with one voice.

    Attributes:
        saturation: texts a second, and the processor's seconds for each of them.
        at_rates: texts a second, percentiles of their latency in milliseconds, and failures.
        first_sound: of a long text, in milliseconds.
        megabytes: of memory.
        others: the largest share of the processors that other programs took meanwhile.
    """

    saturation: tuple[float, float]
    at_rates: Sequence[tuple[float, tuple[float, ...], int]]
    first_sound: float
    megabytes: float
    others: float


async def run(options: Options) -> Report:
    """Measure every arrangement with both voices."""
    plan = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="characters-") as name:
        folder = Path(name)
        write_characters(folder, plan.layers)
        measured: _Results = {}
        for each in plan.arrangements:
            measured |= await _measure(plan, each, folder)
    doors = await compare_doors(TEXTS, LONG, plan.saturated[0] / 2, plan.firsts[0])
    tables = (_loads(plan, measured), _summary(plan, measured), doors)
    return Report("text", tables, facts=_facts(plan, measured))


async def _measure(plan: Extent, how: Arrangement, folder: Path) -> _Results:
    environment = {
        "HOST": "127.0.0.1",
        "PORT": PORT,
        "WORKERS": str(how.workers),
        "THREADS": str(how.threads),
        "CONCURRENCY": str(how.at_once),
        "BACKLOG": "1000",
        "CHARACTERS_DIR": str(folder),
        "MAX_BUNDLE_BYTES": str(1 << 32),
        "TIMEOUT": "300",
        "MAX_REQUESTS": "0",
        "LOG_LEVEL": "WARNING",
    }
    async with (
        running(python(SERVICE), environment, "/version") as server,
        httpx.AsyncClient(base_url=server.url, timeout=SECONDS * 5) as client,
    ):
        return {
            (voice, how): await _measure_voice(plan, server, client, voice)
            for voice in (MEI, CHARACTER)
        }


async def _measure_voice(
    plan: Extent, server: Server, client: httpx.AsyncClient, voice: str
) -> Measured:
    index = (MEI, CHARACTER).index(voice)
    visitor = await _Visitor.known(client, voice)
    await visitor.prepare((*TEXTS, LONG))
    first, others = await undisturbed(server, partial(visitor.first_sound, plan.firsts[index]))
    at_rates, seconds = [], plan.seconds[index]
    for rate in plan.rates[index]:
        applied = partial(apply_load, visitor.ask, rate=rate, seconds=seconds)
        load, more = await undisturbed(server, applied)
        at_rates.append((rate, load.percentiles(), load.failures()))
        others = max(others, more)
    asked = partial(_saturation, server, visitor, plan.saturated[index])
    saturation, more = await undisturbed(server, asked)
    return Measured(saturation, at_rates, first, server.megabytes(), max(others, more))


async def _saturation(server: Server, visitor: _Visitor, seconds: float) -> tuple[float, float]:
    """Measure how many texts a second are spoken when more are always asked for.

    Each client's answers count until its last one, so that no text counts in part. The second value
    is the processor time of one text in seconds.
    """
    begin, spent = time.perf_counter(), server.cpu_seconds()
    texts = itertools.count()

    async def client() -> tuple[int, float]:
        answers = 0
        while time.perf_counter() - begin < seconds:
            answers += await visitor.ask(next(texts)) in SUCCESSES
        return answers, time.perf_counter() - begin

    heard = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    each = (server.cpu_seconds() - spent) / max(1, sum(answers for answers, _ in heard))
    return sum(answers / took for answers, took in heard), each


class _Visitor:
    """Asks the service as a client of VOICEVOX does."""

    def __init__(self, client: httpx.AsyncClient, style: int) -> None:
        self._client = client
        self._style = style
        self._queries: dict[str, object] = {}

    @classmethod
    async def known(cls, client: httpx.AsyncClient, voice: str) -> _Visitor:
        speakers = (await client.get("/speakers")).json()
        (style,) = (each["styles"][0]["id"] for each in speakers if each["name"] == voice)
        return cls(client, style)

    async def prepare(self, texts: Sequence[str]) -> None:
        for text in texts:
            answer = await self._client.post("/audio_query", params=self._of(text=text))
            answer.raise_for_status()
            self._queries[text] = answer.json()

    async def ask(self, index: int) -> int:
        """Speak the next text from its beginning to its end, as a bot does."""
        text = TEXTS[index % len(TEXTS)]
        query = await self._client.post("/audio_query", params=self._of(text=text))
        answer = await self._client.post("/synthesis", params=self._of(), json=query.json())
        return answer.status_code

    async def first_sound(self, times: int) -> float:
        """Return the milliseconds from asking for a long text to its first sound."""
        waits = []
        for _ in range(times + 1):
            begin = time.perf_counter()
            address, body = self._of(stream="true"), self._queries[LONG]
            async with self._client.stream(
                "POST", "/synthesis", params=address, json=body
            ) as answer:
                received = 0
                async for chunk in answer.aiter_bytes():
                    received += len(chunk)
                    if received > 4_000:  # noqa: PLR2004 - more than the header
                        break
                waits.append((time.perf_counter() - begin) * 1000)
        return median(waits[1:])

    def _of(self, **more: str) -> dict[str, str | int]:
        return {"speaker": self._style, **more}


_Results = dict[tuple[str, Arrangement], Measured]


def _loads(plan: Extent, measured: _Results) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (voice, each.title, rate, *percentiles, failures)
        for voice in (MEI, CHARACTER)
        for each in plan.arrangements
        for rate, percentiles, failures in measured[voice, each].at_rates
    ]
    columns = ("voice", "arrangement", "texts/s", "p50 (ms)", "p95 (ms)", "p99 (ms)", "failures")
    return Table("texts at a constant rate, `/audio_query` and `/synthesis`", columns, tuple(rows))


def _summary(plan: Extent, measured: _Results) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for voice in (MEI, CHARACTER):
        for each in plan.arrangements:
            found = measured[voice, each]
            rate, processor = found.saturation
            rows.append((voice, each.title, rate, processor, found.first_sound, found.megabytes))
    columns = (
        "voice",
        "arrangement",
        "saturation (texts/s)",
        "processor time of a text (s)",
        "first sound of 60 characters (ms)",
        "memory (MB, both voices loaded)",
    )
    return Table("saturation, first sound and memory", columns, tuple(rows))


def _facts(plan: Extent, measured: _Results) -> dict[str, Cell]:
    def of(workers: int) -> Measured:
        (how,) = (
            each for each in plan.arrangements if (each.workers, each.threads) == (workers, 1)
        )
        return measured[CHARACTER, how]

    one, two = of(1).megabytes, of(2).megabytes
    return {
        "memory that a second process adds, of the first one's": (two - one) / one,
        "largest share of the processors that other programs took during a row": max(
            found.others for found in measured.values()
        ),
    }
