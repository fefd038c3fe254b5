"""Open-loop load: requests at a constant rate, whatever becomes of the ones before.

A latency counts from the moment that a request should have been sent. A generator that waits for
answers, as closed loops do, sends less just when the server is slow, and hides that from itself
("coordinated omission", Gil Tene).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

PERCENTILES: Final = (50, 95, 99)
SUCCESSES: Final = range(200, 300)
UNANSWERED: Final = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        status: HTTP's, or UNANSWERED.
        latency: seconds from when it should have been sent.
        at: seconds from the beginning of the load to the answer.
    """

    status: int
    latency: float
    at: float

    @property
    def is_success(self) -> bool:
        """Whether it did what was asked."""
        return self.status in SUCCESSES


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a load.

    Attributes:
        answers: all of them.
        generator_cpu: seconds that this process took, itself.
        seconds: how long requests were sent.
    """

    answers: Sequence[Answer]
    generator_cpu: float
    seconds: float

    def percentiles(self) -> tuple[float, ...]:
        """Return the milliseconds of the successes' latency at `PERCENTILES`."""
        latencies = [1000 * answer.latency for answer in self.answers if answer.is_success]
        if not latencies:
            return (float("nan"),) * len(PERCENTILES)
        return tuple(float(value) for value in np.percentile(latencies, PERCENTILES))

    def failures(self) -> int:
        """Count what was refused, failed, or not answered."""
        return sum(not answer.is_success for answer in self.answers)

    def rate(self, since: float) -> float:
        """Return the successes per second from `since` to the end of sending."""
        ended = sum(
            answer.is_success and since <= answer.at < self.seconds for answer in self.answers
        )
        return ended / (self.seconds - since)


async def apply_load(send: Callable[[int], Awaitable[int]], *, rate: float, seconds: float) -> Load:
    """Send requests at a constant rate.

    Args:
        send: sends the request of an index and returns the status of its answer.
        rate: requests per second.
        seconds: for how long; answers are waited for beyond that.
    """
    begin, cpu = time.perf_counter(), time.process_time()

    async def one(index: int, due: float) -> Answer:
        try:
            status = await send(index)
        except httpx.HTTPError:
            status = UNANSWERED
        now = time.perf_counter()
        return Answer(status, now - begin - due, now - begin)

    requests = []
    for index in range(round(rate * seconds)):
        due = index / rate
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        requests.append(asyncio.create_task(one(index, due)))
    await asyncio.sleep(max(0.0, begin + seconds - time.perf_counter()))
    spent = time.process_time() - cpu
    return Load(await asyncio.gather(*requests), spent, seconds)
