"""The search for a schedule that violates an invariant, and its shortest form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.robustness.simulation.schedule import Schedule, shrink
from tests.robustness.simulation.world import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Finding:
    seed: int
    violation: str
    schedule: Mapping[str, str]

    def report(self) -> str:
        world = simulate(Schedule(self.seed, self.schedule), traced=True)
        choices = json.dumps(dict(self.schedule), indent=2, ensure_ascii=False)
        return "\n".join(
            (
                f"seed {self.seed}: {self.violation}",
                *(world.log or ()),
                "its shortest schedule; --replay FILE runs it again:",
                choices,
            )
        )


def kinds_of(violations: Iterable[str]) -> set[str]:
    return {each.partition(":")[0] for each in violations}


def find(seed: int) -> Finding | None:
    """Run the schedule of a seed; return its shortest form if an invariant is violated."""
    world = simulate(Schedule(seed))
    if not world.violations:
        return None
    violation = world.violations[0]

    def fails(unusual: Mapping[str, str]) -> bool:
        found = simulate(Schedule(seed, unusual)).violations
        return bool(kinds_of([violation]) & kinds_of(found))

    shortest = shrink(world.schedule.unusual, fails)
    found = simulate(Schedule(seed, shortest)).violations
    return Finding(seed, next(iter(found), violation), shortest)
