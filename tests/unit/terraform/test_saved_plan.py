"""A plan that is saved here and applied somewhere else."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from infra.terraform.check import copy_of_module
from tests.unit.terraform.programs import run, with_stubs

if TYPE_CHECKING:
    from pathlib import Path

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
