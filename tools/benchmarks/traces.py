"""What traces cost a running service: two local clouds side by side, one with traces, one without.

Voices go through both alternately, so that what disturbs the machine disturbs both. Google's own
Cloud Trace is not asked: a collector in this process takes what is sent, over HTTP.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import TYPE_CHECKING, Final

from tools.benchmarks.report import Report, Table
from tools.benchmarks.servers import cpu_seconds
from tools.benchmarks.voice_journeys import visited_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tools.benchmarks.report import BenchmarkOptions, Cell
    from tools.benchmarks.voice_journeys import Visitors

SERVICES: Final = ("api", "on_upload", "convert")
"""Those on the way of a voice."""

TOGETHER: Final = "together"

BATCH_SECONDS: Final = 6.0
"""Steps wait for five seconds at most before they are sent (OpenTelemetry's default)."""

Spent = dict[str, list[float]]
"""By service, the milliseconds of processor time per voice in each round."""


@dataclass(frozen=True, slots=True)
class TracesExtent:
    """How much is measured."""

    warm_ups: int
    rounds: int
    voices: int


FULL: Final = TracesExtent(warm_ups=20, rounds=9, voices=40)
QUICK: Final = TracesExtent(warm_ups=3, rounds=2, voices=5)


async def run(options: BenchmarkOptions) -> Report:
    """Measure rounds in which voices go through both clouds alternately."""
    plan = QUICK if options.quick else FULL
    with collector() as (address, taken):
        async with (
            visited_cloud(embedded=False) as without,
            visited_cloud(embedded=False, traces=address) as traced,
        ):
            for visitors in (without, traced):
                await visitors.one_by_one(plan.warm_ups)
            before, after = await measure(without, traced, plan)
    if not taken:
        raise RuntimeError("no step came to the collector: nothing was traced")
    return Report(
        "traces",
        (costs_table(before, after),),
        facts={
            "a voice's processor time with traces by that without (at most 1.02)": median(
                ratios(before, after, TOGETHER)
            ),
            "bytes that were sent for each voice": sum(taken)
            / (plan.warm_ups + plan.rounds * plan.voices),
        },
    )


async def measure(without: Visitors, traced: Visitors, plan: TracesExtent) -> tuple[Spent, Spent]:
    """Return the processor time per voice without and with traces."""
    spent: tuple[Spent, Spent] = (defaultdict(list), defaultdict(list))
    both = (without, traced)
    for turn in range(plan.rounds):
        before = [processor_time(visitors.cloud.pids) for visitors in both]
        for _ in range(plan.voices):
            # Whoever comes second finds caches as the first one left them.
            for visitors in both if turn % 2 else both[::-1]:
                await visitors.send()
        await asyncio.sleep(BATCH_SECONDS)
        for at_first, visitors, times in zip(before, both, spent, strict=True):
            for name, milliseconds in processor_time(visitors.cloud.pids).items():
                times[name].append((milliseconds - at_first[name]) / plan.voices)
    return spent


def processor_time(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the milliseconds that each service, and all of them, have used so far."""
    times = {name: 1000 * cpu_seconds(pids[name]) for name in SERVICES}
    return {**times, TOGETHER: sum(times.values())}


def ratios(before: Spent, after: Spent, service: str) -> list[float]:
    """Return the processor time with traces by that without, round by round."""
    return [on / off for on, off in zip(after[service], before[service], strict=True)]


def costs_table(before: Spent, after: Spent) -> Table:
    """Return the table of the services."""
    rows: list[tuple[Cell, ...]] = []
    for service in (*SERVICES, TOGETHER):
        found = ratios(before, after, service)
        times = (median(before[service]), median(after[service]))
        rows.append((service, *times, median(found), min(found), max(found), len(found)))
    columns = ("service", "without", "with", "with by without", "least", "most", "rounds")
    return Table("Processor time per voice of 3 s, ms, medians of rounds", columns, tuple(rows))


@contextmanager
def collector() -> Iterator[tuple[str, Sequence[int]]]:
    """Take OTLP over HTTP; yield the address, and the bytes of each request that came."""
    taken: list[int] = []

    class Taking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            taken.append(len(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", taken
        finally:
            server.shutdown()
            thread.join()
