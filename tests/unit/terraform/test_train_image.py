from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pathspec
import pytest

from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

DOCKERFILE = ROOT / "functions/train/Dockerfile"
IGNORE = ROOT / "functions/train/Dockerfile.dockerignore"
TOPS = ("characters", "shared", "tools")


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def inside() -> list[str]:
    """Return the files of the checkout that the upload holds."""
    ignored = pathspec.GitIgnoreSpec.from_lines(IGNORE.read_text().splitlines())
    return [path for path in tracked() if not ignored.match_file(path)]


def instructions(name: str) -> list[str]:
    lines = DOCKERFILE.read_text().splitlines()
    return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


def test_the_upload_holds_what_the_image_is_made_of_and_nothing_else(inside: list[str]) -> None:
    there = {path.split("/")[0] for path in inside}
    functions = {path for path in inside if path.startswith("functions/")}

    assert there == {*TOPS, "functions"}
    assert all(path.startswith(("functions/__init__", "functions/train/")) for path in functions)
    assert {"functions/train/main.py", "functions/train/requirements.txt"} <= functions
    assert "tools/training/content/average.npz" in inside


def test_everything_that_is_copied_is_in_the_upload(inside: list[str]) -> None:
    copied = [one.split()[0] for one in instructions("COPY") if not one.startswith("--from")]

    assert len(copied) >= 5
    for source in copied:
        assert [path for path in inside if path.startswith(source)], source


def test_a_change_of_anything_in_the_image_makes_a_new_image(
    terraform: TerraformModule, inside: list[str]
) -> None:
    patterns = pathspec.GitIgnoreSpec.from_lines(
        f"/{pattern}"
        for name in ("shared_patterns", "train_image_patterns")
        for pattern in terraform.locals[name]
    )
    code = [path for path in inside if path.endswith((".py", ".npz", ".onnx", ".txt", "file"))]

    assert [path for path in code if not patterns.match_file(path)] == []


def test_it_starts_the_job_as_a_user_without_rights_on_the_same_python_as_the_converter() -> None:
    (user,), (command,) = instructions("USER"), instructions("CMD")
    converter = (ROOT / "functions/convert/Dockerfile").read_text()

    assert int(user.partition(":")[0]) > 1000
    assert json.loads(command) == ["python", "-m", "functions.train"]
    assert f"ARG {instructions('ARG')[0]}" in converter


def test_only_this_image_has_pytorch_and_it_has_the_build_for_cpus() -> None:
    with_torch = [
        path.parent.name
        for path in ROOT.glob("functions/*/requirements.txt")
        if "\ntorch==" in path.read_text()
    ]
    requirements = (ROOT / "functions/train/requirements.txt").read_text()

    assert with_torch == ["train"]
    assert "+cpu" in requirements.split("\ntorch==")[1].split("\n")[0]
    assert "nvidia-" not in requirements
    # Not from the package index: the operator says where it is, the hashes what it is.
    (install,) = (line for line in instructions("RUN") if "--require-hashes" in line)
    assert '--extra-index-url "${PYTORCH_INDEX:?is not set}"' in install
