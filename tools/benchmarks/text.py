"""How many texts a second are spoken, and how soon.

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
import numpy as np

from tools.benchmarks.random_text_voice import CHARACTER, LAYERS, write_characters
from tools.benchmarks.report import Report, Table
from tools.benchmarks.servers import python, running, undisturbed
from tools.benchmarks.text_apis import ENVIRONMENT, SERVICE, compare_apis, saturate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tools.benchmarks.report import BenchmarkOptions, Cell
    from tools.benchmarks.servers import Server
    from tools.benchmarks.text_apis import SpokenTexts


PERCENTILES: Final = (50, 95, 99)
SUCCESSES: Final = range(200, 300)
UNANSWERED: Final = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        latency: seconds from when it should have been sent.
    """

    status: int
    latency: float

    @property
    def is_success(self) -> bool:
        """Whether it did what was asked."""
        return self.status in SUCCESSES


def percentiles(answers: Sequence[Answer]) -> tuple[float, ...]:
    """Return the milliseconds of the successes' latency at `PERCENTILES`."""
    latencies = [1000 * answer.latency for answer in answers if answer.is_success]
    if not latencies:
        return (float("nan"),) * len(PERCENTILES)
    return tuple(float(value) for value in np.percentile(latencies, PERCENTILES))


async def apply_load(
    send: Callable[[int], Awaitable[int]], *, rate: float, seconds: float
) -> Sequence[Answer]:
    """Send requests at a constant rate.

    Args:
        rate: requests per second.
    """
    begin = time.perf_counter()

    async def one(index: int, due: float) -> Answer:
        try:
            status = await send(index)
        except httpx.HTTPError:
            status = UNANSWERED
        return Answer(status, time.perf_counter() - begin - due)

    requests = []
    for index in range(round(rate * seconds)):
        due = index / rate
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        requests.append(asyncio.create_task(one(index, due)))
    return await asyncio.gather(*requests)


VOICES: Final = ("メイ", CHARACTER)
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


@dataclass(frozen=True, slots=True)
class TextExtent:
    """How much is measured.

    Attributes:
        rates: texts a second that are asked of each.
        saturated: seconds for which as much is asked of each as it speaks.
    """

    seconds: tuple[float, float]
    rates: tuple[float, float]
    saturated: tuple[float, float]
    firsts: tuple[int, int]
    layers: int = LAYERS


FULL: Final = TextExtent((6.0, 12.0), (8.0, 0.5), (6.0, 15.0), (7, 1))
QUICK: Final = TextExtent((3.0, 6.0), (8.0, 0.5), (4.0, 8.0), (3, 1), layers=4)


@dataclass(frozen=True, slots=True)
class TextFigures:
    """What was measured of one voice.

    Attributes:
        rate: texts a second that were asked for.
        latency: percentiles of the milliseconds to the whole of one, at that rate.
        first_sound: of a long text, in milliseconds.
        others: the largest share of the processors that other programs took meanwhile.
    """

    spoken: SpokenTexts
    rate: float
    latency: tuple[float, ...]
    failures: int
    first_sound: float
    others: float


async def run(options: BenchmarkOptions) -> Report:
    """Measure both voices in one process with one thread for each inference, and every API."""
    plan = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="characters-") as name:
        write_characters(Path(name), plan.layers)
        more = {
            "CHARACTERS_DIR": name,
            "MAX_BUNDLE_BYTES": str(1 << 32),
            "TIMEOUT": "300",
        }
        async with (
            running(python(SERVICE), ENVIRONMENT | more, "/version") as server,
            httpx.AsyncClient(base_url=server.url, timeout=SECONDS * 5) as client,
        ):
            measured = {
                voice: await _measure(plan, server, client, index)
                for index, voice in enumerate(VOICES)
            }
            megabytes = server.megabytes()
    doors = await compare_apis(TEXTS, LONG, plan.saturated[0] / 2, plan.firsts[0])
    others = max(each.others for each in measured.values())
    return Report(
        "text",
        (_loads(measured), _summary(measured), doors),
        facts={
            "memory with both voices loaded, MB": megabytes,
            "largest share of the processors that other programs took during a row": others,
        },
    )


async def _measure(
    plan: TextExtent, server: Server, client: httpx.AsyncClient, index: int
) -> TextFigures:
    visitor = await _Visitor.known(client, VOICES[index])
    await visitor.prepare((*TEXTS, LONG))
    first_sound, others = await undisturbed(
        server, partial(visitor.first_sound, plan.firsts[index])
    )
    load = partial(apply_load, visitor.ask, rate=plan.rates[index], seconds=plan.seconds[index])
    answers, during_load = await undisturbed(server, load)
    spoken, while_saturated = await undisturbed(
        server, partial(saturate, server, visitor.ask, itertools.count(), plan.saturated[index])
    )
    return TextFigures(
        spoken,
        plan.rates[index],
        percentiles(answers),
        sum(not each.is_success for each in answers),
        first_sound,
        max(others, during_load, while_saturated),
    )


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
        return answer.raise_for_status().status_code

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


def _loads(measured: Mapping[str, TextFigures]) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (voice, each.rate, *each.latency, each.failures) for voice, each in measured.items()
    )
    columns = ("voice", "texts/s", "p50 (ms)", "p95 (ms)", "p99 (ms)", "failures")
    return Table("texts at a constant rate, `/audio_query` and `/synthesis`", columns, rows)


def _summary(measured: Mapping[str, TextFigures]) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (voice, each.spoken.a_second, each.spoken.processor, each.first_sound)
        for voice, each in measured.items()
    )
    columns = (
        "voice",
        "saturation (texts/s)",
        "processor time of a text (s)",
        "first sound of 60 characters (ms)",
    )
    return Table("saturation and first sound", columns, rows)
