"""Files that are written from the variables and outputs, options tried in pairs, and examples."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from infra.terraform.generation import (
    NEEDS,
    OPTIONS,
    choose_states,
    generated,
    tried,
)
from tests.unit.terraform.reading import MODULE, ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_generated_file_is_what_the_variables_and_outputs_say_now(path: object) -> None:
    written = {str(one): text for one, text in generated().items()}

    assert (MODULE / str(path)).read_text() == written[str(path)], (
        "run python -m infra.terraform.generation"
    )


def test_every_two_options_are_switched_on_and_off_together_and_beside_each_other() -> None:
    done = tried(choose_states())
    independent = {name: {needed} for name, needed in NEEDS.items()}

    for first, second in combinations(OPTIONS, 2):
        wanted = [("on", "on"), ("on", "off"), ("off", "on"), ("off", "off")]
        wanted += [("on", "stays on"), ("off", "stays on"), ("stays on", "on"), ("stays on", "off")]
        missing = [(one, other) for one, other in wanted if (first, one, second, other) not in done]
        if second in independent.get(first, set()) or first in independent.get(second, set()):
            # What an option needs cannot be switched off while it stays, or on while it goes.
            assert ("off", "off") not in missing
            assert ("on", "on") not in missing
        else:
            assert not missing, (first, second, missing)


GUIDE = ROOT / "docs/deploy.md"


def workflow(name: str) -> str:
    return (MODULE / "examples/ci" / name).read_text()


def test_the_guide_prints_each_variable_that_the_workflow_of_the_deployment_reads() -> None:
    read = set(re.findall(r"vars\.(\w+)", workflow("deploy.yml")))

    assert read == set(re.findall(r'^    echo "(\w+)=', GUIDE.read_text(), re.MULTILINE))


def test_the_probe_of_the_workflow_has_the_options_that_it_is_given() -> None:
    given = re.findall(r"(--\w[\w-]*)", workflow("probe.yml").partition("infra.probe")[2])
    command = [sys.executable, "-m", "infra.probe", "--help"]

    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert given
    assert all(option in said for option in given)


@pytest.mark.parametrize(
    "workflow", [*MODULE.glob("examples/ci/*.yml"), *ROOT.glob(".github/workflows/*.yml")], ids=str
)
def test_an_action_is_used_at_one_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (\S+)", workflow.read_text())

    assert used
    assert [each for each in used if not re.search(r"@[0-9a-f]{40}$", each)] == []
