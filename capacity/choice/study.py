"""One call of the planner: three deployments side by side, and a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capacity.choice.search import Search
from capacity.choice.summary import summarise, waited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capacity.choice.search import Found
    from capacity.choice.summary import Summary, Waited
    from capacity.choice.target import Target
    from capacity.model.arrivals import Arrivals
    from capacity.model.running import Runner
    from capacity.model.settings import Settings
    from capacity.model.simulation import Simulation

WITHOUT: str = "without warm-up"
WITH: str = "with warm-up"
MINIMUM: str = "with minimum instances"


@dataclass(frozen=True, slots=True)
class Study:
    """The outcome.

    Attributes:
        summaries: by the deployment's name.
        target: what was searched for, if anything.
        found: what was found.
    """

    summaries: Mapping[str, Summary]
    target: Target | None = None
    found: Found | None = None


def study(runner: Runner, settings: Settings, arrivals: Arrivals, target: Target | None) -> Study:
    """Simulate the three deployments, and search if there is a target."""
    deployments = {
        WITHOUT: settings.without_warm_up(),
        WITH: settings.with_warm_up_only(),
        MINIMUM: settings,
    }
    told = runner.run(list(deployments.values()), arrivals, _tell)
    summaries = {name: summary for name, (summary, _) in zip(deployments, told, strict=True)}
    if target is None:
        return Study(summaries)
    (_, day) = told[-1]
    return Study(summaries, target, Search(runner, target, arrivals, settings, day).run())


def _tell(simulation: Simulation) -> tuple[Summary, Waited]:
    return summarise(simulation), waited(simulation)
