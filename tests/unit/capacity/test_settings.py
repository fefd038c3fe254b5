from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.capacity.parameters import PlanningError
from tools.capacity.settings import BusyHours, Instances, Settings, Signing

VARIABLES = Path(__file__).parents[3] / "infra" / "terraform" / "variables.tf"


def test_settings_are_printed_as_variables_that_the_module_has() -> None:
    settings = Settings(busy_hours=BusyHours(19, 21, 40), signing=Signing.HMAC)
    known = set(re.findall(r'^variable "(\w+)"', VARIABLES.read_text(), re.MULTILINE))
    printed = settings.terraform(Instances(3, 4, 50))
    names = {line.partition(" ")[0] for line in printed.splitlines()}
    assert names <= known
    assert {"min_instances", "max_instances", "quota", "signing", "busy_hours"} <= names


def test_what_was_used_leaves_room_and_the_quota_holds_all_of_it() -> None:
    printed = Settings(convert_cpu=2).terraform(Instances(api=10, on_upload=5, convert=100))
    assert "max_instances          = { api = 13, convert = 121, on_upload = 7 }" in printed
    # 121 converters of two CPUs, 20 functions, one dead_letter and one sweep.
    assert "quota                  = { cpus = 264, memory_gib = 132 }" in printed


def test_a_maximum_is_never_printed_above_what_was_allowed() -> None:
    allowed = Settings(maximum=Instances(5, 5, 20))
    assert "convert = 20," in allowed.terraform(Instances(5, 5, 20))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"convert_cpu": 3}, "convert_cpu is 3; Cloud Run has 1, 2, 4 and 8 CPUs"),
        ({"minimum": Instances(0, 0, -1)}, "convert has at least -1"),
        ({"minimum": Instances(9, 0, 0), "maximum": Instances(3, 3, 3)}, "api has at least 9"),
        ({"maximum": Instances(0, 3, 3)}, "api has at least 0 and at most 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(PlanningError, match=said):
        Settings(**changes)  # type: ignore[arg-type] # wrong on purpose
