from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.commands.demo import SAMPLE
from shared.voices.voice import OutputFormat
from tools.benchmarks.__main__ import page_of
from tools.benchmarks.cost import (
    JobPrices,
    Measurement,
    Prices,
    TrainingJob,
    Usage,
    conversion_dollars,
    make_report,
    measure,
    month_dollars,
    probe_day_dollars,
    read_usage,
    sweep_day_dollars,
    training_dollars,
    warm_day_dollars,
)
from tools.benchmarks.report import Report, Table, with_figures

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

USAGE = Usage(document_reads=6, document_writes=4)


def test_the_container_is_paid_for_while_it_computes_and_while_it_waits() -> None:
    measured = Measurement(cpu_seconds=0.7, seconds=5, bytes=0)
    usage = replace(USAGE, cpus=2, gib=1, waiting_seconds=0.3)
    prices = Prices(cpu_second=3, gib_second=4)

    dollars = conversion_dollars(measured, usage, prices)

    assert dollars["conversion container"] == pytest.approx(1.0 * (2 * 3 + 1 * 4))


def test_a_conversion_is_measured_with_the_service_itself() -> None:
    measured = measure(SAMPLE.read_bytes(), OutputFormat.WAV, rounds=1)

    assert measured.seconds > 1
    assert measured.bytes > 10_000


def test_a_result_is_paid_for_by_the_gibibyte() -> None:
    measured = Measurement(cpu_seconds=0, seconds=5, bytes=2**29)

    dollars = conversion_dollars(measured, USAGE, Prices(gib_to_the_internet=0.12))

    assert dollars["result to the visitor"] == pytest.approx(0.06)


def test_a_warm_day_is_a_day_of_idle_prices() -> None:
    prices = Prices(idle_cpu_second=1, idle_gib_second=10)

    assert warm_day_dollars(replace(USAGE, cpus=2, gib=1), prices) == 86_400 * 12


def test_a_day_of_sweeps_is_paid_for_by_the_job_the_second_the_query_and_the_request() -> None:
    usage = replace(USAGE, sweeps=100, sweep_seconds=2, sweep_reads=3)
    prices = Prices(cpu_second=1, gib_second=2, document_read=10, request=1000, scheduler_job_day=7)

    assert sweep_day_dollars(usage, prices) == 100 * (2 * (1 + 0.5 * 2) + 3 * 10 + 1000) + 7


def test_the_sweeps_that_are_paid_for_are_those_that_terraform_starts(
    terraform: TerraformModule,
) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]
    minutes = re.fullmatch(r"\*/(\d+) \* \* \* \*", job["schedule"])

    assert minutes
    assert 60 % int(minutes[1]) == 0
    assert USAGE.sweeps == 24 * 60 / int(minutes[1])
    assert terraform.locals["functions"]["sweep"]["memory"] == "512Mi"


def test_the_instance_that_is_paid_for_is_the_one_that_terraform_makes(
    terraform: TerraformModule,
) -> None:
    assert terraform.variables["convert_cpu"]["default"] == str(USAGE.cpus)
    assert terraform.variables["convert_memory"]["default"] == f"{USAGE.gib}Gi"


def test_documents_are_those_that_the_benchmark_has_counted(tmp_path: Path) -> None:
    rows = (
        ("Firestore documents written", 4.5),
        ("Firestore documents read by the service", 2.0),
        ("Firestore documents read by the visitor's listener", 3.5),
    )
    saved = Report("pipeline", (Table("one voice", ("what", "per voice"), rows),)).save(tmp_path)

    usage = read_usage(saved)

    assert (usage.document_writes, usage.document_reads) == (4.5, 5.5)


def test_a_report_without_the_documents_is_refused(tmp_path: Path) -> None:
    saved = Report("pipeline", (Table("one voice", ("what", "per voice"), ()),)).save(tmp_path)

    with pytest.raises(ValueError, match="does not contain"):
        read_usage(saved)


def test_the_page_about_deploying_has_a_place_for_what_was_measured() -> None:
    measured = [Measurement(0.1, 5, 200_000), Measurement(0.2, 5, 50_000)]

    page = with_figures(page_of("cost").read_text(), make_report(measured, read_usage(), Prices()))

    (cpu,) = re.findall(r"\| CPU seconds of one \|.*", page)
    assert cpu == "| CPU seconds of one | 0.100 | 0.200 |"


def test_a_month_has_what_google_charges_beside_the_voices() -> None:
    few, many = (
        month_dollars(per_day, Measurement(0.06, 5, 250_000), USAGE, Prices())
        for per_day in (1000, 1_000_000)
    )

    assert (few["logging"], few["Pub/Sub"], few["`app_check`"]) == (0, 0, 8)
    # 30 million visits, the first 100 000 for US$ 8.
    assert many["`app_check`"] == pytest.approx(8 + 29_900)
    assert many["logging"] == pytest.approx(0.5 * (30e6 * 9000 / 2**30 - 50))
    assert many["`custom_domain`"] == pytest.approx(18 + 7 + 45 * 0.75)


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
