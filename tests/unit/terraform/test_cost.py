from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.benchmarks.cost import CONTAINER, VoiceUse, make_report
from tools.capacity import billing
from tools.capacity.parameters import read_parameters

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

PARAMETERS = read_parameters()


def test_what_is_paid_for_is_what_terraform_makes(
    terraform: TerraformModule,
) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]
    minutes = re.fullmatch(r"\*/(\d+) \* \* \* \*", job["schedule"])

    assert minutes
    assert 60 % int(minutes[1]) == 0
    assert PARAMETERS["sweep.runs"] == 24 * 60 / int(minutes[1])
    assert terraform.locals["functions"]["sweep"]["memory"] == "512Mi"
    cpus, gib = CONTAINER
    assert terraform.default("var.convert.cpu") == f"{cpus:g}"
    assert terraform.default("var.convert.memory") == f"{gib:g}Gi"
    alerts = dict(terraform.locals["alerts_on_metrics"])
    del alerts["Live conversions are put off"]
    # The module writes two of these with one expression.
    two = alerts.pop("Conversions fail")["conditions"].count('" = ')
    conditions = two + sum(len(alert["conditions"]) for alert in alerts.values())
    assert PARAMETERS["deployed.alert_conditions"] == conditions


def test_a_month_has_the_prices_of_google_as_they_were_looked_up() -> None:
    voices = {"recording": VoiceUse(0.06, 144_000), "typed": VoiceUse(1.0, 144_000)}
    report = make_report(voices, PARAMETERS)
    tables: dict[str, Any] = {
        table.title: {row[0]: row[1:] for row in table.rows} for table in report.tables
    }
    month = tables["A month, US$, by the voices of a day (wav)"]
    # Google's price list: 10 000 for nothing, US$ 8 up to 100 000, US$ 1 for each 1000 more.
    assert month["`app_check`"] == (8.0, 2908.0, 29908.0)
    assert billing.month_of_options(PARAMETERS, 10_000)["`app_check`"] == 0
    assert billing.month_of_options(PARAMETERS, 10_001)["`app_check`"] == 8
    # US$ 18 and 7, and 0.75 for each million of the 1.5 requests of a visit.
    assert month["`domain.name`: load balancer and Cloud Armor"] == (25.0, 28.4, 58.8)
    # 9 KB of each voice, of which 50 GiB are for nothing and others US$ 0.50.
    gib = 30_000_000 * 9000 / 2**30
    assert month["logging"] == (0, 0, round((gib - 50) * 0.5, 1))
    assert month["alert conditions, once Google charges them"] == (14 * 1.5,) * 3
    # 40 % of what the container and the functions cost: 2 CPUs and 1 GiB, 1 CPU and 0.5 GiB.
    voice = (0.06 + 0.3) * (2 * 0.000024 + 0.0000025) + 0.3 * (0.000024 + 0.5 * 0.0000025)
    tier_2 = month["a region of tier 2"]
    idle = month["warm instances, their liveness probes, and sweeps"]
    assert tier_2[0] == pytest.approx(0.4 * (30_000 * voice + idle[0]), abs=0.1)
    assert tier_2[2] == pytest.approx(0.4 * (30_000_000 * voice + idle[2]), abs=0.1)
    nobody = tables["A month without any visitor, US$"]
    # Each of 8640 probes a day is billed as 0.1 s of two CPUs and one GiB.
    assert nobody["its liveness probes, one every ten seconds"] == (1.31, 0)
    assert list(nobody["a day of it"]) == pytest.approx([30.69 / 30, 0.0075], abs=0.01)
    # A text takes more of the container than a recording, and nothing else.
    recording, typed = (
        tables["1000 voices of 5 s, US$"][kind] for kind in ("functions", "**together**")
    )
    assert recording[0] == recording[1]
    assert typed[1] - typed[0] == pytest.approx(1000 * 0.94 * (2 * 0.000024 + 0.0000025))


def test_a_characters_price_in_the_documentation_is_the_one_that_is_calculated() -> None:
    page = (Path(__file__).parents[3] / "docs/own-characters.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (job|api|Firestore|Cloud Storage|a month)[^|]*\| ([\d.]+) \|$", page, re.MULTILINE
    )
    dollars = billing.own_character(PARAMETERS)

    assert [float(price) for _, price in rows] == [round(each, 5) for each in dollars.values()]
    together = re.search(r"^\| \*\*together\*\* \| \*\*([\d.]+)\*\* \|$", page, re.MULTILINE)
    assert together is not None
    assert float(together[1]) == round(sum(dollars.values()), 4) <= 0.05
