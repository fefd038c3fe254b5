"""Running simulations side by side, and telling how far they are."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from capacity.model.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from capacity.model.arrivals import Arrivals
    from capacity.model.parameters import Parameters
    from capacity.model.settings import Settings
    from capacity.model.simulation import Allowance

_POLL_SECONDS: Final = 0.1

_Result = TypeVar("_Result")


class Watcher(Protocol):
    """Is told how far simulations are."""

    def expect(self, voices: int) -> None:
        """So many more voices are going to be simulated."""
        ...

    def reached(self, voices: int) -> None:
        """So many have been, in all."""
        ...


class NoWatcher:
    """Shows nothing."""

    def expect(self, voices: int) -> None:
        """Forget it."""

    def reached(self, voices: int) -> None:
        """Forget it."""


class Bar:
    """A progress bar.

    Args:
        progress: shows it.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("voices", total=0)
        self._total = 0

    def expect(self, voices: int) -> None:
        """Make the bar longer."""
        self._total += voices
        self._progress.update(self._task, total=self._total)

    def reached(self, voices: int) -> None:
        """Move it."""
        self._progress.update(self._task, completed=voices)


@contextmanager
def shown(console: Console) -> Iterator[Watcher]:
    """Show a progress bar as long as it lasts; it disappears afterwards."""
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} voices"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)


@dataclass(slots=True)
class Runner:
    """Runs simulations, as many at once as there are processors, but at most two.

    Attributes:
        parameters: of all of them.
        watcher: is told how far they are.
        seed: of everything random; the same for all, so that they can be compared.
    """

    parameters: Parameters
    watcher: Watcher = field(default_factory=NoWatcher)
    seed: int = 0
    _finished: int = 0

    def run(
        self,
        deployments: Sequence[Settings],
        arrivals: Arrivals,
        tell: Callable[[Simulation], _Result],
        allowance: Allowance | None = None,
    ) -> list[_Result]:
        """Simulate the same visitors with several deployments.

        Args:
            deployments: the settings.
            arrivals: the visitors.
            tell: makes a result from a simulation that is over, whose memory is then given back.
            allowance: ends a simulation in which more voices are late.
        """
        self.watcher.expect(len(deployments) * len(arrivals.times))
        under_way: list[Simulation] = []

        def simulate(settings: Settings) -> _Result:
            simulation = Simulation.prepare(self.parameters, settings, arrivals)
            under_way.append(simulation)
            told = tell(simulation.run(self.seed, allowance))
            under_way.remove(simulation)
            self._finished += len(arrivals.times)
            return told

        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as threads:
            running = [threads.submit(simulate, settings) for settings in deployments]
            while wait(running, timeout=_POLL_SECONDS).not_done:
                self._tell(under_way)
        self._tell(under_way)
        return [each.result() for each in running]

    def _tell(self, under_way: Sequence[Simulation]) -> None:
        self.watcher.reached(self._finished + sum(each.progress for each in tuple(under_way)))
