"""Secrets whose addresses were others once, and a plan that is applied somewhere else."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

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


ARCHIVES: Final = "module.voice_avatar.google_storage_bucket_object.function"


def test_a_saved_plan_makes_the_archives_where_it_is_applied(tmp_path: Path) -> None:
    program = with_stubs()
    here, elsewhere = tmp_path / "here", tmp_path / "another" / "machine"
    deployment = copy_of_module(here) / "deployment"
    plan = f"""
        terraform init -input=false
        terraform plan -input=false -target={ARCHIVES} \
            -var-file=../tests/trial.tfvars -out=saved.plan
    """
    apply = """
        terraform init -input=false
        terraform show -json saved.plan > plan.json
        terraform apply -input=false saved.plan
        terraform show -json > state.json
    """

    run(program, deployment, plan)
    made_by_the_plan = list(here.rglob("*.zip"))
    elsewhere.parent.mkdir()
    shutil.move(here, elsewhere)
    there = elsewhere / deployment.relative_to(here)
    run(program, there, apply)

    assert made_by_the_plan == []
    planned = json.loads((there / "plan.json").read_text())
    changes = {change["address"]: change for change in planned["resource_changes"]}
    archive = changes['module.voice_avatar.archive_file.function["api"]']
    assert (archive["mode"], archive["change"]["actions"]) == ("managed", ["create"])
    state = (there / "state.json").read_text()
    assert objects(json.loads(state)) == {
        name: f"./.build/{name}.zip" for name in ("api", "dead_letter", "on_upload", "sweep")
    }
    assert str(here) not in json.dumps(planned) + state


def test_another_checkout_of_the_same_sources_uploads_no_archive_again(tmp_path: Path) -> None:
    program = with_stubs()
    first, second = tmp_path / "first", tmp_path / "second"
    deployments = [copy_of_module(tree) / "deployment" for tree in (first, second)]
    disguise(second)
    arguments = f"-input=false -target={ARCHIVES} -var-file=../tests/trial.tfvars"

    run(
        program,
        deployments[0],
        f"terraform init -input=false; terraform apply -auto-approve {arguments}",
    )
    shutil.copy(deployments[0] / "terraform.tfstate", deployments[1])
    plan_again = f"""
        terraform init -input=false
        terraform plan {arguments} -out=again.plan
        terraform show -json again.plan > plan.json
    """
    run(program, deployments[1], plan_again)

    planned = json.loads((deployments[1] / "plan.json").read_text())
    uploads = {
        change["index"]: change["change"]["actions"]
        for change in planned["resource_changes"]
        if change["type"] == "google_storage_bucket_object"
    }
    assert uploads == {name: ["no-op"] for name in ("api", "dead_letter", "on_upload", "sweep")}


def disguise(tree: Path) -> None:
    """Give files other times and rights, as another checkout of the same commit has them."""
    for path in tree.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
            path.chmod(0o700)


def objects(state: dict[str, Any]) -> dict[str, str]:
    """Return the paths that the archives were uploaded from."""
    (module,) = state["values"]["root_module"]["child_modules"]
    return {
        each["index"]: each["values"]["source"]
        for each in module["resources"]
        if each["type"] == "google_storage_bucket_object"
    }
