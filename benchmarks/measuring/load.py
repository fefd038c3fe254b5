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
        send: sends the request of an index and returns the status of its answer.
        rate: requests per second.
        seconds: for how long; answers are waited for beyond that.
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
