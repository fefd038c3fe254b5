from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from shared.voices.voice import ErrorCode
from tests.unit.terraform.reading import MODULE, ROOT

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

SERVICES = ("api", "convert", "dead_letter", "live", "on_upload", "sweep")


@cache
def source_of(deployable: str) -> str:
    """Return the code that a deployable runs; `live` runs VOICEVOX's routes, too."""
    own = {"live": ("live", "live_and_compat", "compat")}.get(deployable, (deployable,))
    folders = [ROOT / "shared", *(ROOT / "functions" / name for name in own)]
    return "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))


def logs(deployable: str, event: str, field: str = "event") -> bool:
    """Return whether a deployable's code names an event, and a field."""
    source = source_of(deployable)
    return f'"{event}"' in source and f'"{field.partition(".")[0]}"' in source


def watched(terraform: TerraformModule) -> set[str]:
    return set(re.findall(r'event=\\?"(\w+)', str(terraform.locals["alerts_on_logs"])))


def test_a_log_based_metric_names_an_event_and_fields_that_the_code_logs(
    terraform: TerraformModule,
) -> None:
    metrics = {**terraform.locals["counters"], **terraform.locals["whole_durations"]}
    for name, metric in metrics.items():
        deployable = metric.get("service", "local.names.convert").removeprefix("local.names.")
        for field in {*metric.get("labels", {}).values(), metric.get("value", "event")}:
            assert logs(deployable, metric["event"], field), (name, field)


def test_an_alert_watches_only_events_that_the_code_logs(terraform: TerraformModule) -> None:
    events = watched(terraform)

    assert {"unexpected_error", "trainer_crashed"} <= events
    for event in events:
        assert any(logs(name, event) for name in ("convert", "sweep", "train")), event
    assert all(logs(name, "unexpected_error") for name in SERVICES)


def test_the_events_in_the_runbook_are_those_that_metrics_count_or_alerts_watch(
    terraform: TerraformModule,
) -> None:
    text = (MODULE / "runbook.md").read_text()
    queried = re.findall(r'jsonPayload\.event=\(?\\"(\w+)\\"(?: OR \\"(\w+)\\")?', text)
    counted = {counter["event"] for counter in terraform.locals["counters"].values()}

    assert queried
    assert {one for pair in queried for one in pair if one} <= counted | watched(terraform)


def test_the_stages_on_the_dashboard_are_those_that_the_code_measures(
    terraform: TerraformModule,
) -> None:
    measured = re.findall(r'(?:\.stage\(|timed_as=)"(\w+)"', source_of("convert"))

    assert set(terraform.locals["stages"]) == set(measured)


def test_the_errors_that_alarm_the_operator_are_codes_of_voices(
    terraform: TerraformModule,
) -> None:
    assert set(terraform.locals["own_errors"]) <= {code.value for code in ErrorCode}
