"""Running Terraform with stubs of the providers, which know their schemas."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from infra.terraform.check import find_stand_in

if TYPE_CHECKING:
    from pathlib import Path

STUBS: Final = "with-stubs"
"""Runs a command with stubs of the providers; it lies beside the schema check."""


def with_stubs() -> Path:
    check = find_stand_in(os.environ)
    if check is None or shutil.which("terraform") is None:
        pytest.skip("needs terraform and the schema check, which `nox -s terraform` uses too")
    return check.with_name(STUBS)


def run(program: Path, folder: Path, script: str) -> str:
    said = subprocess.run(
        [str(program), "sh", "-euc", script],
        cwd=folder,
        env={**os.environ, "CHECK_TERRAFORM_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout
