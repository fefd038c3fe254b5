"""Which server needs the least processor time for HTTP, by protocol and size of the body."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import httpx

from benchmarks.measuring.load import SUCCESSES, apply_load
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.servers import PORT, python, running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measuring.load import Load
    from benchmarks.measuring.report import Cell, Options

APP: Final = "benchmarks.http.sink:app"
HTTP_1: Final = "HTTP/1.1"
H2C: Final = "HTTP/2 (h2c)"


@dataclass(frozen=True, slots=True)
class Contender:
    """A server and a protocol."""

    server: str
    protocol: str
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """For the tables."""
        return f"{self.server}, {self.protocol}"


_BIND: Final = f"127.0.0.1:{PORT}"
_UVICORN: Final = python(
    "uvicorn", "--host", "127.0.0.1", "--port", PORT, "--log-level", "error", APP
)
_HYPERCORN: Final = python("hypercorn", "--bind", _BIND, "--log-level", "error", APP)
_GUNICORN: Final = python(
    "gunicorn", "--bind", _BIND, "--worker-class", "asgi", "--log-level", "error"
)
CONTENDERS: Final = (
    Contender("Hypercorn", HTTP_1, _HYPERCORN),
    Contender("Hypercorn", H2C, _HYPERCORN),
    Contender("Uvicorn", HTTP_1, _UVICORN),
    Contender("Gunicorn's own worker", HTTP_1, (*_GUNICORN, APP)),
)


@dataclass(frozen=True, slots=True)
class Body:
    """A request body and how often it is sent.

    Attributes:
        name: for the tables.
        bytes: of each request.
        rate: requests per second.
    """

    name: str
    bytes: int
    rate: float


SMALL: Final = Body("a message, 1 kB", 1_000, 100.0)
LARGE: Final = Body("a recording, 2 MB", 2_000_000, 5.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    contenders: Sequence[Contender]
    rounds: int
    seconds: float


FULL: Final = Plan(CONTENDERS, rounds=3, seconds=6.0)
QUICK: Final = Plan(CONTENDERS[:3], rounds=1, seconds=2.0)


@dataclass(slots=True)
class Found:
    """The measurements of a contender with a body, round by round.

    Attributes:
        cpu: processor milliseconds of the server for one request.
        loads: the answers.
    """

    cpu: list[float] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)

    def row(self) -> tuple[Cell, ...]:
        """Return CPU, p50, p95 and p99 in milliseconds and the number of failures."""
        rounds = [load.percentiles() for load in self.loads]
        percentiles = (median(values) for values in zip(*rounds, strict=True))
        return (median(self.cpu), *percentiles, sum(load.failures() for load in self.loads))


async def run(options: Options) -> Report:
    """Measure every contender with both bodies, alternately."""
    plan = QUICK if options.quick else FULL
    bodies = (SMALL, LARGE)
    found = {(one.name, body.name): Found() for body in bodies for one in plan.contenders}
    for _ in range(plan.rounds):
        for one in plan.contenders:
            await _measure(one, bodies, plan.seconds, found)
    columns = ("server, protocol", "CPU ms of a request", "p50, ms", "p95", "p99", "failed")
    tables = tuple(
        Table(
            f"{body.name}, {body.rate:g} a second",
            columns,
            tuple((one.name, *found[one.name, body.name].row()) for one in plan.contenders),
        )
        for body in bodies
    )
    first, second = (found[one.name, SMALL.name] for one in plan.contenders[:2])
    return Report(
        "http",
        tables,
        ratios={"a message by h2c / by HTTP/1.1": median(second.cpu) / median(first.cpu)},
    )


async def _measure(
    contender: Contender,
    bodies: Sequence[Body],
    seconds: float,
    found: dict[tuple[str, str], Found],
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(contender.command, {}, "/"))
        is_second = contender.protocol == H2C
        client = await stack.enter_async_context(
            # With HTTP/1 ruled out, the client speaks HTTP/2 from the first byte.
            httpx.AsyncClient(base_url=server.url, http1=not is_second, http2=is_second, timeout=30)
        )
        for body in bodies:
            content = os.urandom(body.bytes)

            async def send(_index: int, content: bytes = content) -> int:
                return (await client.post("/", content=content)).status_code

            status = await send(0)
            if status not in SUCCESSES:
                raise RuntimeError(f"{contender.name} answered {status}")
            before = server.cpu_seconds()
            load = await apply_load(send, rate=body.rate, seconds=seconds)
            one = found[contender.name, body.name]
            one.cpu.append(1000 * (server.cpu_seconds() - before) / len(load.answers))
            one.loads.append(load)
