"""What decoding a recording costs, in the same process and in a process of its own.

Run it from the repository's root: `python -m tests.robustness.measurement.decoding_overhead`.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.demuxing import Demuxer
from shared.speech.decoding.recording import DecodeLimits
from shared.voices.media import sniff
from tests.integration.audio.recordings import FLAVOURS, recording

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROUNDS = 30
LIMITS = DecodeLimits()


async def main() -> None:
    """Print a table of medians in milliseconds, for 5 s at 48 kHz in every format."""
    started = time.perf_counter()
    async with Decoder() as decoder:
        _print(f"start of the zygote: {1000 * (time.perf_counter() - started):.0f} ms\n")
        _print(f"{'format':<40}{'in process':>12}{'round trip':>12}{'its CPU':>10}")
        for name in FLAVOURS:
            data = recording(name, 5.0)
            cpu_seconds: list[float] = []
            inside = await _median(partial(_in_process, data))
            outside = await _median(partial(_round_trip, decoder, data, cpu_seconds))
            cpu = 1000 * statistics.median(cpu_seconds)
            _print(f"{name:<40}{inside:>12.1f}{outside:>12.1f}{cpu:>10.1f}")
        data = recording("webm from Chrome or Firefox", 5.0)
        started = time.perf_counter()
        await asyncio.gather(*(decoder.decode(data, limits=LIMITS) for _ in range(ROUNDS)))
        rate = ROUNDS / (time.perf_counter() - started)
        _print(f"\n{rate:.0f} recordings of 5 s a second, several at a time")


async def _in_process(data: bytes) -> None:
    container = sniff(data)
    if container is None:
        raise ValueError("the benchmark made a recording that it does not know")
    for _ in Demuxer(data, container).chunks(LIMITS.longest, 1 << 26):
        pass


async def _round_trip(decoder: Decoder, data: bytes, cpu_seconds: list[float]) -> None:
    decoded = await decoder.decode(data, limits=LIMITS)
    cpu_seconds.append(decoded.cpu_seconds)


async def _median(action: Callable[[], Awaitable[None]]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await action()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(main())
