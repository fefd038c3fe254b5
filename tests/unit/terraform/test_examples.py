from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.terraform.reading import MODULE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

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
