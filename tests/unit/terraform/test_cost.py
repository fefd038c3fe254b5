from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.benchmarks.__main__ import page_of
from tools.benchmarks.cost import (
    JobPrices,
    Prices,
    TrainingJob,
    Usage,
    probe_day_dollars,
    sweep_day_dollars,
    training_dollars,
    warm_day_dollars,
)

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

USAGE = Usage(document_reads=6, document_writes=4)


def test_what_is_paid_for_is_what_terraform_makes(
    terraform: TerraformModule,
) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]
    minutes = re.fullmatch(r"\*/(\d+) \* \* \* \*", job["schedule"])

    assert minutes
    assert 60 % int(minutes[1]) == 0
    assert USAGE.sweeps == 24 * 60 / int(minutes[1])
    assert terraform.locals["functions"]["sweep"]["memory"] == "512Mi"
    assert terraform.variables["convert_cpu"]["default"] == str(USAGE.cpus)
    assert terraform.variables["convert_memory"]["default"] == f"{USAGE.gib}Gi"


def test_the_guide_says_what_an_idle_month_costs() -> None:
    page = page_of("cost").read_text()
    prices = Prices()
    on_upload = prices.idle_cpu_second + 0.5 * prices.idle_gib_second
    rows = {
        "one warm instance of the converter": 30 * warm_day_dollars(Usage(6, 4), prices),
        "its liveness probes": 30 * probe_day_dollars(Usage(6, 4), prices),
        "one warm instance of on_upload": 30 * 86_400 * on_upload,
        "sweeps": 30 * sweep_day_dollars(Usage(6, 4), prices),
    }
    said = {name: re.search(rf"^\| {name}[^|]*\| ([\d.]+) \|", page, re.MULTILINE) for name in rows}

    assert {name: float(found[1]) for name, found in said.items() if found} == {
        name: round(dollars, 2) for name, dollars in rows.items()
    }
    together = re.search(r"^\| together \| ([\d.]+) \|", page, re.MULTILINE)
    assert together
    assert float(together[1]) == pytest.approx(sum(rows.values()), abs=0.01)


def test_a_characters_price_in_the_documentation_is_the_one_that_is_calculated() -> None:
    page = (Path(__file__).parents[3] / "docs/own-characters.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (job|api|Firestore|Cloud Storage|a month)[^|]*\| ([\d.]+) \|$", page, re.MULTILINE
    )
    dollars = training_dollars(TrainingJob(), Prices(), JobPrices())

    assert [float(price) for _, price in rows] == [round(each, 5) for each in dollars.values()]
    together = re.search(r"^\| \*\*together\*\* \| \*\*([\d.]+)\*\* \|$", page, re.MULTILINE)
    assert together is not None
    assert float(together[1]) == round(sum(dollars.values()), 4) <= 0.05
