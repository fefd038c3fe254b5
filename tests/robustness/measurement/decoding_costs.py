"""What decoding a file costs, and a search for the files that cost most.

    python -m tests.robustness.measurement.decoding_costs --minutes 60 --seed 1 [--write]

It measures every file of the corpus and every kind of recording, changes the costliest at random,
keeps what costs more, and ends with a table. The costliest files are kept in `.fuzz/costs`, and the
next search goes on with them, so that a long one can be made in parts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shared.speech.decoding import demuxing
from shared.speech.decoding.decode_process import decode_into
from shared.speech.decoding.decoder import job_of
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.decoding.zygote import Confinement
from shared.voices.media import SNIFF_BYTES, sniff
from tests.integration.audio.recordings import FLAVOURS, recording
from tests.robustness.fuzz.mutation import TELLING, changed
from tests.robustness.hostile.corpus import MAX_BYTES, groups
from tests.robustness.hostile.watching import lures
from tools.benchmarks.report import Report, Table, with_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from tests.robustness.fuzz.mutation import Change

LIMITS: Final = DecodeLimits(max_bytes=MAX_BYTES)
MOST_CPU_SECONDS: Final = 1.0
MOST_MEMORY_BYTES: Final = 128 << 20
KEPT: Final = Path(".fuzz") / "costs"
README: Final = Path(__file__).parents[1] / "hostile" / "README.md"

_KIBIBYTE: Final = 1024
_STATE: Final = "search.json"
_ELITE: Final = 12
_MOST_CHANGES: Final = 6
_KINDS: Final = ("flip", "overwrite", "insert", "cut", "repeat")
_FEW_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """What decoding one file took."""

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
    """Measures files in processes that are limited as the service's are.

    They are forked from a small process, as the service's are: what a search keeps would make each
    fork cost more, and would leave the decoding less memory. That process is not forked itself:
    memory that its parent had used and freed would be used again by the decoding, uncounted.
    """

    def __init__(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._connection, theirs = spawning.Pipe()
        spawning.Process(target=_measure_all, args=(theirs,), daemon=True).start()
        theirs.close()

    def cost_of(self, data: bytes) -> Cost | None:
        """Decode a file and return what that took, None if it is refused before it is decoded."""
        if sniff(data[:SNIFF_BYTES]) is None or len(data) > MAX_BYTES:
            return None
        self._connection.send_bytes(data)
        cpu_seconds, peak = self._connection.recv()
        return Cost(cpu_seconds, peak, len(data))


def _measure_all(connection: Connection) -> None:
    """Measure every file that comes; answer with processor time and peak of memory."""
    demuxing.warm_up()
    confinement = Confinement()
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        _, base = _run(_nothing)
        cpu_seconds, peak = _run(partial(_decode, confinement, data))
        connection.send((cpu_seconds, max(0, peak - base)))


def _decode(confinement: Confinement, data: bytes) -> None:
    container = sniff(data[:SNIFF_BYTES])
    if container is None:
        raise ValueError("this is no recording")
    job = job_of(container, LIMITS)
    confinement.limit(
        cpu_seconds=job.cpu_seconds,
        memory_bytes=job.memory_bytes,
        wall_seconds=job.wall_seconds,
        answer_bytes=job.answer_bytes,
    )
    decode_into(io.BytesIO(), data, job, confined=False)


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
    """Keeps the costliest files by each objective, and looks for costlier ones."""

    def __init__(self, meter: Meter, seed: int) -> None:
        self._meter = meter
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - no secrets
        self.elite: dict[str, list[Found]] = {name: [] for name in OBJECTIVES}
        self.tried = 0
        self.seconds = 0.0

    def save(self, folder: Path) -> None:
        """Keep the costliest files, so that another search can go on with them."""
        folder.mkdir(parents=True, exist_ok=True)
        elite: dict[str, list[dict[str, Any]]] = {}
        for objective, kept in self.elite.items():
            elite[objective] = []
            for found in kept:
                file = hashlib.sha256(found.data).hexdigest()[:16]
                (folder / file).write_bytes(found.data)
                facts = {"name": found.name, "file": file, "cost": asdict(found.cost)}
                elite[objective].append(facts)
        content = {"tried": self.tried, "seconds": self.seconds, "elite": elite}
        (folder / _STATE).write_text(json.dumps(content, indent=1))

    def resume(self, folder: Path) -> bool:
        """Go on with what an earlier search has kept; return whether there is any."""
        if not (folder / _STATE).exists():
            return False
        content = json.loads((folder / _STATE).read_text())
        self.tried, self.seconds = content["tried"], content["seconds"]
        for objective, kept in content["elite"].items():
            self.elite[objective] = [
                Found(each["name"], (folder / each["file"]).read_bytes(), Cost(**each["cost"]))
                for each in kept
            ]
        # Every part makes other changes than those before it.
        self._random.seed(f"{self._seed}/{self.tried}")
        return True

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


def report_of(search: Search, each: int = 2) -> Report:
    """Return what the README shows: the costliest files by each objective."""
    rows = []
    for objective, kept in search.elite.items():
        for found in kept[:each]:
            cost = found.cost
            mebibytes = cost.memory_bytes / (1 << 20)
            row = (objective, found.name, cost.file_bytes, cost.cpu_seconds, mebibytes)
            rows.append(row)
    columns = ("costliest by", "file", "bytes", "processor time (s)", "memory (MiB)")
    facts = {"minutes of search": search.seconds / 60, "files tried": search.tried}
    return Report("costs", (Table("The costliest files", columns, tuple(rows)),), facts)


def main(arguments: Sequence[str]) -> int:
    """Search for so long; return 1 if a file costs more than any may."""
    parser = argparse.ArgumentParser(prog="costs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long this part takes")
    parser.add_argument("--seed", type=int, default=1)
    text = "bring the figures into tests/robustness/hostile/README.md"
    parser.add_argument("--write", action="store_true", help=text)
    wish = parser.parse_args(arguments)
    search = Search(Meter(), wish.seed)
    _search(search, 60 * wish.minutes)
    search.save(KEPT)
    report = report_of(search)
    report.show()
    if wish.write:
        README.write_text(with_figures(README.read_text(), report))
    worst = [kept[0].cost for kept in search.elite.values()]
    is_within = all(
        cost.cpu_seconds <= MOST_CPU_SECONDS and cost.memory_bytes <= MOST_MEMORY_BYTES
        for cost in worst
    )
    return 0 if is_within else 1


def _search(search: Search, seconds: float) -> None:
    begin, before = time.monotonic(), 0.0
    if search.resume(KEPT):
        before = search.seconds
    else:
        for name, data in seeds():
            search.try_file(name, data)
    while time.monotonic() < begin + seconds:
        search.step()
    search.seconds = before + time.monotonic() - begin


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
