from __future__ import annotations

import re
from pathlib import Path

import pytest

from functions.api import warmup
from infra.terraform.generation import read_blocks
from shared.voices.store import SHARDS
from tools.capacity.parameters import (
    CLOUD,
    PlanningError,
    read_parameters,
)
from tools.capacity.settings import CONVERSIONS_PER_CPU, Settings, Signing

ROOT = Path(__file__).parents[3]
TERRAFORM = ROOT / "infra" / "terraform"


def test_defaults_are_those_of_the_terraform_module() -> None:
    defaults = {
        f"{group.name}.{one.path}": one.default
        for group in read_blocks("variable", (TERRAFORM / "variables.tf").read_text())
        for one in group.settings()
    }
    settings = Settings()
    # The setting's default is null, which the module reads as one instance without a GPU.
    usual = f"var.convert.gpu == null ? {settings.min_instances} : 0"
    assert f"coalesce(var.convert.min_instances, {usual})" in (TERRAFORM / "convert.tf").read_text()
    assert defaults["convert.min_instances"] == "null"
    assert str(settings.api_concurrency) == defaults["api.concurrency"]
    assert str(settings.delivery_attempts) == defaults["dead_letter.delivery_attempts"]
    assert f'"{settings.convert_cpu}"' == defaults["convert.cpu"]
    parameters = read_parameters()
    patience = parameters["visitor.patience"]
    assert f"{patience:g}" == defaults["monitoring.wait_objective_seconds"]
    text = (TERRAFORM / "locals.tf").read_text()
    assert f"conversions_per_cpu = {CONVERSIONS_PER_CPU}" in text
    text = (TERRAFORM / "pubsub.tf").read_text()
    assert f'minimum_backoff = "{parameters["pubsub.minimum_backoff"]:g}s"' in text
    assert f'maximum_backoff = "{parameters["pubsub.maximum_backoff"]:g}s"' in text


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('[a.b]\nvalue = 1.0\nunit = "s"\n', "needs a source"),
        ('[a.b]\nvalue = 1.0\nunit = "s"\nsource = "somebody said so"\n', "needs a source"),
        ('[a.b]\nunit = "s"\nsource = "assumed: x"\n', "cannot be read"),
        (
            (
                '[a.b]\nunit = "s"\nsource = "measured: cost"\nbenchmark = "cost"\ntable = "x"\n'
                'row = "y"\ncolumn = "z"\n'
            ),
            "has no row 'y'",
        ),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entry: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(entry)
    with pytest.raises(PlanningError, match=said) as refused:
        read_parameters(CLOUD, path)
    assert "a.b" in str(refused.value)


def test_line_warm_ups_and_parts_are_those_of_client_and_api() -> None:
    parameters = read_parameters()
    source = (ROOT / "web/client/src/line.ts").read_text()

    def client(name: str) -> float:
        (found,) = re.findall(rf"^const {name} = ([0-9.]+);$", source, re.MULTILINE)
        return float(found)

    assert parameters["line.patience"] == client("LINE_SECONDS")
    assert parameters["line.jitter"] == client("JITTER")
    assert parameters["line.longest_backoff"] == client("LONGEST_SECONDS")
    assert parameters["deployed.warm_up_window"] == warmup.ARRIVAL_SECONDS
    assert parameters["deployed.warm_up_slot_seconds"] == warmup.SLOT_SECONDS
    assert parameters["deployed.index_parts"] == parameters["deployed.collections"] == SHARDS


def test_printed_settings_leave_room_and_the_quota_holds_all_of_it() -> None:
    settings = Settings(max_instances=121, signing=Signing.HMAC)
    printed = settings.terraform({"api": 10, "on_upload": 5, "convert": 110, "live": 0})
    assert "max_instances = 121 }" in printed
    assert "api       = { concurrency = 500, min_instances = 0, max_instances = 13," in printed
    assert "on_upload = { min_instances = 1, max_instances = 7 }" in printed
    # 121 converters of two CPUs, 20 functions, one dead_letter and one sweep.
    assert "quota     = { cpus = 264, memory_gib = 132 }" in printed
    assert 'signing   = { method = "hmac" }' in printed
