"""How long a new instance takes until it can convert, and how long a visitor waits for it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from tools.benchmarks.cold_visitors import (
    InstanceState,
    Start,
    Starter,
    Visit,
    medians,
    scaled_cloud,
)
from tools.benchmarks.recordings import webm
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.benchmarks.report import BenchmarkOptions, Cell

DEPLOYABLES: Final = ("api", "on_upload", "convert", "dead_letter", "sweep")
COMPILED: Final = "with bytecode"
NOT_COMPILED: Final = "without"
SPOKEN_SECONDS: Final = 3.0
"""The recording whose wait the target is about."""


@dataclass(frozen=True, slots=True)
class ColdStartExtent:
    """How often each thing is measured; slow starts without bytecode are measured less often.

    Attributes:
        starts: of the container, with bytecode and without.
        visits: how often for which recording, in seconds, and each state of the instance.
    """

    starts: Mapping[str, int]
    parts: Mapping[str, int]
    imports: Mapping[str, int]
    visits: Mapping[float, int]


FULL: Final = ColdStartExtent(
    starts={COMPILED: 9, NOT_COMPILED: 3},
    parts={COMPILED: 9, NOT_COMPILED: 1},
    imports={COMPILED: 5, NOT_COMPILED: 1},
    visits={1.0: 5, 3.0: 25, 5.0: 5, 10.0: 3},
)
QUICK: Final = ColdStartExtent(
    starts={COMPILED: 2, NOT_COMPILED: 0},
    parts={COMPILED: 1, NOT_COMPILED: 0},
    imports={COMPILED: 1, NOT_COMPILED: 0},
    visits={1.0: 1, 3.0: 1},
)

Waits = dict[tuple[float, InstanceState], list[Visit]]


async def run(options: BenchmarkOptions) -> Report:
    """Measure starts, then waits."""
    plan = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        starts = Starts.measure(Path(name), plan)
    waits = await measure_waits(plan)
    warm = _median_wait(waits, InstanceState.WARM)
    costs = _median_wait(waits, InstanceState.WARMING_UP) / warm
    return Report(
        "cold-start",
        (*starts.tables(), waits_table(waits)),
        facts={
            "container ready after exec with bytecode (ms, at most 1500 is wanted)": starts.ready,
            "wait after 3 s with warm-up, by that with a minimum instance (at most 1.15)": costs,
        },
        ratios={"processor time of a converter's start, by that of importing NumPy": starts.ratio},
    )


@dataclass(frozen=True, slots=True)
class Starts:
    """What starts took, with bytecode and without.

    Attributes:
        parts: median milliseconds of each part.
        imports: of each deployable, median milliseconds and modules.
        yardsticks: processor time of importing NumPy in a new process, in milliseconds.
    """

    whole: Mapping[str, Sequence[Start]]
    parts: Mapping[str, Mapping[str, float]]
    imports: Mapping[str, Mapping[str, Mapping[str, float]]]
    yardsticks: Sequence[float]

    @classmethod
    def measure(cls, folder: Path, plan: ColdStartExtent) -> Starts:
        """Measure the starts."""
        compiled = Starter(folder / "compiled", has_bytecode=True)
        compile_everything(compiled)
        starters = {
            COMPILED: compiled,
            NOT_COMPILED: Starter(folder / "not-compiled", has_bytecode=False),
        }
        recording = webm(SPOKEN_SECONDS)
        whole: dict[str, list[Start]] = defaultdict(list)
        parts: dict[str, list[dict[str, float]]] = defaultdict(list)
        imports: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
        yardsticks = []
        for turn in range(max(plan.starts.values())):
            yardsticks.append(compiled.measure_yardstick())
            for kind, starter in starters.items():
                if turn < plan.starts[kind]:
                    whole[kind].append(starter.start_converter())
                if turn < plan.parts[kind]:
                    parts[kind].append(starter.measure_parts(recording))
                for name in DEPLOYABLES if turn < plan.imports[kind] else ():
                    imports[kind, name].append(starter.measure_imports(name))
        return cls(
            whole,
            {kind: medians(each) for kind, each in parts.items()},
            {
                kind: {name: medians(imports[kind, name]) for name in DEPLOYABLES}
                for kind in starters
            },
            yardsticks,
        )

    @property
    def ready(self) -> float:
        """Median milliseconds from exec to ready, with bytecode."""
        return median(start.milliseconds for start in self.whole[COMPILED])

    @property
    def ratio(self) -> float:
        """Processor time of a start in yardsticks."""
        costs = (start.cpu_milliseconds for start in self.whole[COMPILED])
        return median(costs) / median(self.yardsticks)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables about starts."""
        return self._whole_table(), self._parts_table(), self._imports_table()

    def _whole_table(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for kind, starts in self.whole.items():
            times = [start.milliseconds for start in starts]
            cpu = median(start.cpu_milliseconds for start in starts)
            rows.append((kind, median(times), min(times), max(times), cpu, len(times)))
        columns = ("bytecode", "median", "least", "most", "processor time", "starts")
        return Table(
            "A conversion container from exec to its first ready answer, ms", columns, tuple(rows)
        )

    def _parts_table(self) -> Table:
        compiled, not_compiled = self.parts[COMPILED], self.parts.get(NOT_COMPILED, {})
        rows = tuple((name, compiled[name], not_compiled.get(name)) for name in compiled)
        title = "The parts of a start, one after another, and the first conversions (3 s), ms"
        return Table(title, ("part", COMPILED, NOT_COMPILED), rows)

    def _imports_table(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for name in DEPLOYABLES:
            compiled, not_compiled = (self.imports[kind][name] for kind in (COMPILED, NOT_COMPILED))
            together = compiled["imports"] + compiled["clients"]
            slowly = not_compiled["imports"] + not_compiled["clients"] if not_compiled else None
            modules = round(compiled["modules"])
            row = (name, modules, compiled["imports"], compiled["clients"], together, slowly)
            rows.append(row)
        columns = ("deployable", "modules", "import", "clients", "together", "without bytecode")
        return Table("What each deployable imports and opens, ms", columns, tuple(rows))


def compile_everything(starter: Starter) -> None:
    """Compile every module that one of the measured processes imports."""
    starter.start_converter()
    for name in DEPLOYABLES:
        starter.measure_imports(name)


async def measure_waits(plan: ColdStartExtent) -> Waits:
    """Visit a cloud in each state of the instance, alternately."""
    waits: Waits = defaultdict(list)
    recordings = {seconds: webm(seconds) for seconds in plan.visits}
    async with scaled_cloud() as cloud:
        # The emulators' first requests take seconds and are no figure of ours.
        await cloud.visit(InstanceState.WARM, recordings[min(recordings)], 0)
        for turn in range(max(plan.visits.values())):
            for seconds in (each for each, count in plan.visits.items() if turn < count):
                # The last one finds the instance that the one before has left.
                for state in InstanceState:
                    visit = await cloud.visit(state, recordings[seconds], seconds)
                    waits[seconds, state].append(visit)
    return waits


def waits_table(waits: Waits) -> Table:
    """Return the table of the waits."""
    rows: list[tuple[Cell, ...]] = []
    for (seconds, state), visits in waits.items():
        times = [visit.wait for visit in visits]
        conversion = median(visit.conversion for visit in visits)
        warm = median(visit.wait for visit in waits[seconds, InstanceState.WARM])
        rows.append(
            (
                seconds,
                state,
                median(times),
                min(times),
                max(times),
                conversion,
                median(times) / warm,
            )
        )
    columns = ("spoken (s)", "instance", "median", "least", "most", "conversion", "to minimum")
    return Table(
        "From the end of the recording to done at the visitor's listener, ms", columns, tuple(rows)
    )


def _median_wait(waits: Waits, state: InstanceState) -> float:
    return median(visit.wait for visit in waits[SPOKEN_SECONDS, state])
