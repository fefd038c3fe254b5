"""What decoding a file costs, and a search for the files that cost most.

    python -m tests.hostile.costs --minutes 60 --seed 1

It measures every file of the corpus and every kind of recording, changes the costliest at random,
keeps what costs more, and ends with a table. The costliest files are kept in `.fuzz/costs`.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.media import SNIFF_BYTES, sniff
from speech.audio import demuxing
from speech.audio.confinement import Confinement
from speech.audio.decoding import job_of
from speech.audio.judging import decode_into
from speech.audio.recording import DecodeLimits
from tests.fuzz.mutation import TELLING, changed
from tests.hostile.corpus import MAX_BYTES, groups
from tests.hostile.watching import lures
from tests.integration.audio.recordings import FLAVOURS, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.fuzz.mutation import Change

LIMITS: Final = DecodeLimits(max_bytes=MAX_BYTES)
MOST_CPU_SECONDS: Final = 1.0
MOST_MEMORY_BYTES: Final = 128 << 20
KEPT: Final = Path(".fuzz") / "costs"

_KIBIBYTE: Final = 1024
_ELITE: Final = 12
_MOST_CHANGES: Final = 6
_KINDS: Final = ("flip", "overwrite", "insert", "cut", "repeat")
_FEW_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """What decoding one file took.

    Attributes:
        cpu_seconds: processor time of the decoding process.
        memory_bytes: its peak of resident memory beyond what it started with.
        file_bytes: the size of the file.
    """

    cpu_seconds: float
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """A file, what it is, and what it costs."""

    name: str
    data: bytes
    cost: Cost


OBJECTIVES: Final[dict[str, Callable[[Cost], float]]] = {
    "processor time": lambda cost: cost.cpu_seconds,
    "memory": lambda cost: cost.memory_bytes,
    # The fixed cost of a file of a few bytes is not what is looked for.
    "processor time per byte": lambda cost: cost.cpu_seconds / max(cost.file_bytes, _FEW_BYTES),
    "memory per byte": lambda cost: cost.memory_bytes / max(cost.file_bytes, _FEW_BYTES),
}


class Meter:
    """Measures files in processes that are limited as the service's are."""

    def __init__(self) -> None:
        demuxing.warm_up()
        self._confinement = Confinement()

    def cost_of(self, data: bytes) -> Cost | None:
        """Decode a file and return what that took, None if it is refused before it is decoded."""
        container = sniff(data[:SNIFF_BYTES])
        if container is None or len(data) > MAX_BYTES:
            return None
        job = job_of(container, LIMITS)

        def decode() -> None:
            self._confinement.limit(
                cpu_seconds=job.cpu_seconds,
                memory_bytes=job.memory_bytes,
                wall_seconds=job.wall_seconds,
                answer_bytes=job.answer_bytes,
            )
            decode_into(io.BytesIO(), data, job, confined=False)

        # A forked process has what its parent has, which grows during a search.
        _, base = _run(_nothing)
        cpu_seconds, peak = _run(decode)
        return Cost(cpu_seconds, max(0, peak - base), len(data))


def _nothing() -> None:
    pass


def _run(work: Callable[[], None]) -> tuple[float, int]:
    """Do the work in a process of its own; return its processor time and its peak in bytes."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, ended, usage = os.wait4(child, 0)
    # A limit may end the process; an error of ours must not look like a cheap file.
    if os.WIFEXITED(ended) and os.WEXITSTATUS(ended):
        raise RuntimeError("the work raised an error")
    return usage.ru_utime + usage.ru_stime, _KIBIBYTE * usage.ru_maxrss


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield every file that the search begins with."""
    for flavour in FLAVOURS:
        yield flavour, recording(flavour)
    with tempfile.TemporaryDirectory() as folder, lures(Path(folder)) as laid:
        for group in groups():
            for file in group.files:
                yield f"{group.title}: {file.name}", file.make(laid)


class Search:
    """Keeps the costliest files by each objective, and looks for costlier ones.

    Args:
        meter: measures files.
        seed: of the random changes.
    """

    def __init__(self, meter: Meter, seed: int) -> None:
        self._meter = meter
        self._random = random.Random(seed)  # noqa: S311 - no secrets
        self.elite: dict[str, list[Found]] = {name: [] for name in OBJECTIVES}
        self.tried = 0

    def try_file(self, name: str, data: bytes) -> None:
        """Measure a file and keep it if it is among the costliest."""
        self.tried += 1
        cost = self._meter.cost_of(data)
        if cost is None:
            return
        for objective, value in OBJECTIVES.items():
            kept = self.elite[objective]
            if all(data != one.data for one in kept):
                kept.append(Found(name, data, cost))
                kept.sort(key=lambda one: value(one.cost), reverse=True)
                del kept[_ELITE:]

    def step(self) -> None:
        """Change one of the costliest files at random and try the result."""
        objective = self._random.choice(tuple(OBJECTIVES))
        parent = self._random.choice(self.elite[objective])
        kept = self._random.choice((0, 4, 12, 16, 64))
        count = self._random.randint(1, _MOST_CHANGES)
        data = changed(parent.data, [self._change() for _ in range(count)], kept)
        name = parent.name if parent.name.endswith(", changed") else f"{parent.name}, changed"
        self.try_file(name, data[:MAX_BYTES])

    def _change(self) -> Change:
        content = self._random.choice((self._random.randbytes(4), self._random.choice(TELLING)))
        return self._random.choice(_KINDS), self._place(), content, self._place()

    def _place(self) -> float:
        return self._random.random() * self._random.choice((1.0, 0.05, 0.005))


def rows(search: Search, each: int = 3) -> Iterator[str]:
    """Yield the rows of the README's table: the costliest files by each objective."""
    for objective, kept in search.elite.items():
        for found in kept[:each]:
            cost = found.cost
            yield (
                f"| {objective} | {found.name} | {cost.file_bytes:,} | {cost.cpu_seconds:.2f} "
                f"| {cost.memory_bytes / (1 << 20):.0f} |"
            )


def main(arguments: Sequence[str]) -> int:
    """Search for so long; return 1 if a file costs more than any may."""
    parser = argparse.ArgumentParser(prog="costs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    wish = parser.parse_args(arguments)
    search = Search(Meter(), wish.seed)
    end = time.monotonic() + 60 * wish.minutes
    for name, data in seeds():
        search.try_file(name, data)
    while time.monotonic() < end:
        search.step()
    KEPT.mkdir(parents=True, exist_ok=True)
    for objective, kept in search.elite.items():
        (KEPT / objective.replace(" ", "-")).write_bytes(kept[0].data)
    _say(f"{search.tried} files were tried")
    _say(
        "| costliest by | file | bytes | processor time (s) | memory (MiB) |\n|---|---|---|---|---|"
    )
    for row in rows(search):
        _say(row)
    worst = [kept[0].cost for kept in search.elite.values()]
    is_within = all(
        cost.cpu_seconds <= MOST_CPU_SECONDS and cost.memory_bytes <= MOST_MEMORY_BYTES
        for cost in worst
    )
    return 0 if is_within else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
