"""How many texts a second are spoken when more are always asked for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from benchmarks.measuring.servers import Server

CLIENTS: Final = 6
"""So many ask at once, each for its next text when it has heard the last one: more than are spoken
at once, so that nobody waits for them."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was spoken.

    Attributes:
        a_second: texts.
        processor: the service's processor time for each of them, in seconds.
    """

    a_second: float
    processor: float


async def saturate(
    server: Server,
    ask: Callable[[int], Awaitable[object]],
    numbers: Iterator[int],
    seconds: float,
) -> Spoken:
    """Ask for as much as is spoken.

    Each client's answers count until its last one, so that no text counts in part.

    Args:
        server: its processor time is counted.
        ask: has the text of a number spoken to its end, and raises what goes wrong.
        numbers: of the texts.
        seconds: after which nothing is begun.
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
    return Spoken(sum(answers / took for answers, took in heard), processor)
