"""What docs/scale.md says is what was wanted of a day of a million visitors with a crowd."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[3] / "docs/scale.md"
CPUS: Final = "vCPU of a new project in a region"
"""The one quota that a deployment of this size must ask for."""


def row(name: str) -> dict[str, float]:
    """Return the figures of a deployment by the headings of their columns."""
    table = PAGE.read_text().partition("| deployment |")[2]
    headings, _, *rows = table.split("\n")
    (found,) = [each for each in rows if each.startswith(f"| {name} |")]
    cells = found.strip("| ").split(" | ")[1:]
    figures = [float(cell.replace(",", "")) for cell in cells]
    return dict(zip(headings.strip("| ").split(" | "), figures, strict=True))


def test_nobody_of_a_crowd_is_refused_nobody_waits_long_and_it_costs_no_more_than_before() -> None:
    planned = row("cheapest that keeps the target")

    assert (planned["refused"], planned["given up"]) == (0, 0)
    assert planned["wait p95, s"] <= 2
    assert planned["wait p99, s"] <= 10
    # What the same day cost before crowds waited in line and voices lay in several collections,
    # and a twentieth more for a simulator with other chance.
    assert planned["US$"] <= 1.05 * 50.25


def test_the_first_quota_that_nobody_raises_is_met_at_500_voices_a_second() -> None:
    after = PAGE.read_text().partition("**Quotas in the order in which they are met**")[2]
    table = after.partition("\n## ")[0]
    quotas = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \|", table, re.MULTILINE))

    met = {name: int(at.replace(",", "")) for name, at in quotas.items() if name != CPUS}
    assert len(met) >= 5
    assert min(met.values()) >= 500
