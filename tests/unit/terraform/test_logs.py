from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

from shared.voices.voice import ErrorCode
from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule


def metrics_of(terraform: TerraformModule) -> dict[str, dict[str, Any]]:
    """Return the log-based metrics by their names."""
    return {**terraform.locals["counters"], **terraform.locals["whole_durations"]}


def sources(deployable: str) -> Iterator[Path]:
    # `live` is another entry of the conversion container, which VOICEVOX's routes can share.
    own = {
        "convert": ("functions/convert",),
        "live": ("functions/live", "functions/live_and_compat", "functions/compat"),
    }.get(deployable, (f"functions/{deployable}",))
    for folder in (ROOT / name for name in (*own, "shared")):
        yield from (path for path in folder.rglob("*.py") if "node_modules" not in path.parts)


def texts(function: ast.AST, value: ast.expr | None) -> set[str]:
    """Return what an expression can be: a text, or a name that the function gives one to."""
    if isinstance(value, ast.Name):
        assigned = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == value.id for name in one.targets)
        ]
        nodes = [node for one in assigned for node in ast.walk(one)]
    else:
        nodes = [value] if value else []
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def added_fields(function: ast.AST) -> set[str]:
    """Return the fields that a function adds to its `extra` afterwards."""
    targets = [
        target
        for one in ast.walk(function)
        if isinstance(one, ast.Assign)
        for target in one.targets
    ]
    return {
        str(target.slice.value)
        for target in targets
        if isinstance(target, ast.Subscript)
        and isinstance(target.value, ast.Name)
        and target.value.id == "extra"
        and isinstance(target.slice, ast.Constant)
    }


@cache
def logged_events(deployable: str) -> dict[str, set[str]]:
    """Return the fields that each event of a deployable is logged with."""
    events: dict[str, set[str]] = defaultdict(set)
    for path in sources(deployable):
        for event, fields in events_in(path):
            events[event] |= fields
    return events


@cache
def events_in(path: Path) -> list[tuple[str, set[str]]]:
    """Return each event that a module logs, and the fields that it is logged with."""
    events: list[tuple[str, set[str]]] = []
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Dict):
                continue
            fields = {
                str(key.value): value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }
            named = texts(function, fields.get("event"))
            events += [(event, fields.keys() | added_fields(function)) for event in named]
    return events


def measured_stages() -> set[str]:
    """Return the stages that the conversion container times: `stage(NAME)` and `timed_as=NAME`."""
    calls = [
        node
        for path in sources("convert")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    names: list[ast.expr] = []
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "stage":
            names += call.args[:1]
        names += [keyword.value for keyword in call.keywords if keyword.arg == "timed_as"]
    return {str(name.value) for name in names if isinstance(name, ast.Constant)}


def test_a_log_based_metric_names_an_event_and_fields_that_the_code_logs(
    terraform: TerraformModule,
) -> None:
    metrics = metrics_of(terraform)

    assert metrics
    for name, metric in metrics.items():
        deployable = metric.get("service", "local.names.convert").removeprefix("local.names.")
        events = logged_events(deployable)
        wanted = set(metric.get("labels", {}).values()) | {metric.get("value", "event")}
        assert metric["event"] in events, name
        assert wanted <= events[metric["event"]], name


def test_an_alert_watches_only_events_that_the_code_logs(terraform: TerraformModule) -> None:
    watched = terraform.watched_events()

    assert watched
    logged = {*logged_events("convert"), *logged_events("sweep"), *logged_events("train")}
    assert watched <= logged


def test_every_service_logs_a_mistake_of_the_program_as_the_event_that_alarms(
    terraform: TerraformModule,
) -> None:
    assert "unexpected_error" in terraform.watched_events()
    for service in ("api", "convert", "dead_letter", "live", "on_upload", "sweep"):
        assert "unexpected_error" in logged_events(service), service


def test_the_stages_on_the_dashboard_are_those_that_the_code_measures(
    terraform: TerraformModule,
) -> None:
    assert set(terraform.locals["stages"]) == measured_stages()
    assert "stages" in logged_events("convert")["conversion_done"]


def test_the_errors_that_alarm_the_operator_are_codes_of_voices(
    terraform: TerraformModule,
) -> None:
    assert set(terraform.locals["own_errors"]) <= {code.value for code in ErrorCode}


def test_every_metric_on_the_dashboard_and_in_an_alert_exists(terraform: TerraformModule) -> None:
    text = "".join(
        (ROOT / "infra/terraform" / name).read_text() for name in ("dashboard.tf", "monitoring.tf")
    )
    named = set(re.findall(r"local\.metric\.(\w+)", text))
    looped = {
        name
        for names in re.findall(r"for name in \[([^\]]*)\] :\n\s+\{ filter = local\.metric", text)
        for name in re.findall(r'"(\w+)"', names)
    }

    assert named
    assert looped
    metrics = metrics_of(terraform)
    assert named | looped <= metrics.keys()
    assert metrics.keys() - named - looped <= {"voices"}
