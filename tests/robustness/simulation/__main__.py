"""Run the whole service in virtual time on random schedules: nox -s simulate -- --minutes 5.

Exits with 1 and prints the shortest schedule that violates an invariant, if it finds one.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from itertools import count
from pathlib import Path

from tests.robustness.simulation.schedule import Schedule
from tests.robustness.simulation.search import find
from tests.robustness.simulation.world import simulate


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("nox -s simulate --", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="the first seed; a random one without it")
    parser.add_argument("--replay", type=Path, help="run the schedule in this file and print it")
    asked = parser.parse_args(arguments)
    if asked.replay is not None:
        schedule = json.loads(asked.replay.read_text("utf-8"))
        world = simulate(Schedule(0, schedule), traced=True)
        print("\n".join((*(world.log or ()), *world.violations)))
        return bool(world.violations)
    first = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    begin, tried = time.monotonic(), 0
    for seed in count(first):
        finding = find(seed)
        tried += 1
        if finding is not None:
            print(finding.report())
            return 1
        if time.monotonic() - begin > asked.minutes * 60:
            break
    print(f"{tried} schedules from seed {first} on, none violated an invariant")
    return 0


if __name__ == "__main__":
    sys.exit(main())
