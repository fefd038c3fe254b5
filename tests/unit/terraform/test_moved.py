"""The secrets in the state: not their contents, and kept where their addresses were others once."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest

from infra.terraform.check import copy_of_module
from tests.unit.terraform.programs import run, with_stubs
from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSIONS: Final = ("google_secret_manager_secret_version.key",)
OPTIONS: Final = (
    "-var=live={} -var=compat={} -var='signing={method=\"hmac\"}' -var=convert={max_instances=3}"
)
"""Those with which everything exists that was ever moved."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the secrets were applied, moved to their old addresses, and planned again."""
    program = with_stubs()
    deployment = copy_of_module(tmp_path_factory.mktemp("checkout")) / "deployment"
    moves = first_to_last(read_moves())
    chosen = f"-input=false -var-file=../tests/trial.tfvars {OPTIONS}"
    as_it_was = "\n".join(
        f"terraform state mv 'module.voice_avatar.{now}' 'module.voice_avatar.{before}'"
        for before, now in moves.items()
    )
    script = f"""
        terraform init -input=false
        terraform plan {chosen} {targets([*moves.values(), *VERSIONS])} -out=first.plan
        terraform show -json first.plan > first.json
        terraform apply -auto-approve first.plan
        terraform show -json > state.json
        {as_it_was}
        terraform plan {chosen} {targets([*moves.values(), *moves])} -out=upgrade.plan
        terraform show -json upgrade.plan > plan.json
    """
    run(program, deployment, script)
    return deployment


def test_neither_the_state_nor_a_plan_holds_a_key(deployment: Path) -> None:
    for name in ("state.json", "first.json"):
        content = json.loads((deployment / name).read_text())
        (module,) = content.get("planned_values", content.get("values"))["root_module"][
            "child_modules"
        ]
        versions = [one for one in module["resources"] if one["type"].endswith("_secret_version")]

        assert {one["index"] for one in versions} >= {"compat", "live-tickets-1", "log-key"}
        for version in versions:
            values = version["values"]
            assert values.get("secret_data") is None
            assert values.get("secret_data_wo") is None
        assert not re.search(r"random_password|access_token|[0-9a-f]{64}", json.dumps(versions))


def test_an_apply_after_an_upgrade_moves_secrets_and_makes_none_anew(deployment: Path) -> None:
    moves = first_to_last(read_moves())

    planned = json.loads((deployment / "plan.json").read_text())["resource_changes"]
    changes = {change["address"]: change for change in planned}
    assert not [change for change in planned if "delete" in change["change"]["actions"]]
    for before, now in moves.items():
        address = f"module.voice_avatar.{now}"
        change = changes[address if address in changes else f"{address}[0]"]
        assert change["change"]["actions"] == ["no-op"]
        assert change["previous_address"].startswith(f"module.voice_avatar.{before}")


def targets(addresses: Iterable[str]) -> str:
    """Return the arguments that leave everything else alone: an apply of all takes minutes."""
    resources = dict.fromkeys(address.partition("[")[0] for address in addresses)
    return " ".join(f"-target=module.voice_avatar.{resource}" for resource in resources)


def read_moves() -> dict[str, str]:
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    return dict(re.findall(r"^moved {\n  from = (\S+)\n  to   = (\S+)\n}", text, re.MULTILINE))


def first_to_last(moves: dict[str, str]) -> dict[str, str]:
    """Follow each address that nothing moves to, to where it is now."""
    found = {}
    for first in moves.keys() - set(moves.values()):
        last = first
        while last in moves:
            last = moves[last]
        found[first] = last
    return found
