from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from infra.cost import (
    Measurement,
    Prices,
    Usage,
    conversion_dollars,
    sweep_day_dollars,
    warm_day_dollars,
)

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

NOTHING = Measurement(cpu_seconds=0, seconds=5, bytes=0)


def test_the_container_is_paid_for_while_it_computes_and_while_it_waits() -> None:
    measured = Measurement(cpu_seconds=0.7, seconds=5, bytes=0)
    usage = Usage(cpus=2, gib=1, waiting_seconds=0.3)
    prices = Prices(cpu_second=3, gib_second=4)

    dollars = conversion_dollars(measured, usage, prices)

    assert dollars["conversion container"] == pytest.approx(1.0 * (2 * 3 + 1 * 4))


def test_a_result_is_paid_for_by_the_gibibyte() -> None:
    measured = Measurement(cpu_seconds=0, seconds=5, bytes=2**29)

    dollars = conversion_dollars(measured, Usage(), Prices(gib_to_the_internet=0.12))

    assert dollars["result to the visitor"] == pytest.approx(0.06)


def test_nothing_is_free_but_what_was_not_used() -> None:
    dollars = conversion_dollars(NOTHING, Usage(), Prices())

    assert [name for name, one in dollars.items() if one == 0] == ["result to the visitor"]


def test_a_warm_day_is_a_day_of_idle_prices() -> None:
    prices = Prices(idle_cpu_second=1, idle_gib_second=10)

    assert warm_day_dollars(Usage(cpus=2, gib=1), prices) == 86_400 * 12


def test_a_day_of_sweeps_is_paid_for_by_the_job_the_second_the_query_and_the_request() -> None:
    usage = Usage(sweeps=100, sweep_seconds=2, sweep_reads=3)
    prices = Prices(cpu_second=1, gib_second=2, document_read=10, request=1000, scheduler_job_day=7)

    assert sweep_day_dollars(usage, prices) == 100 * (2 * (1 + 0.5 * 2) + 3 * 10 + 1000) + 7


def test_the_sweeps_that_are_paid_for_are_those_that_terraform_starts(
    terraform: TerraformModule,
) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]
    minutes = re.fullmatch(r"\*/(\d+) \* \* \* \*", job["schedule"])

    assert minutes
    assert 60 % int(minutes[1]) == 0
    assert Usage().sweeps == 24 * 60 / int(minutes[1])
    assert terraform.locals["functions"]["sweep"]["memory"] == "512Mi"


def test_the_instance_that_is_paid_for_is_the_one_that_terraform_makes(
    terraform: TerraformModule,
) -> None:
    assert terraform.variables["convert_cpu"]["default"] == str(Usage().cpus)
    assert terraform.variables["convert_memory"]["default"] == f"{Usage().gib}Gi"
