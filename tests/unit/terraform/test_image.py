from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pathspec
import pytest

from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule

DOCKERFILE = ROOT / "functions/convert/Dockerfile"
NEEDED = [
    "characters/a-character/character.json",
    "characters/a-character/a-graph.onnx",
    "shared/conversion/worker.py",
    "functions/__init__.py",
    "functions/live_and_compat/main.py",
    "functions/compat/main.py",
    "functions/convert/main.py",
    "functions/convert/requirements-cuda.txt",
    "functions/convert/requirements.txt",
    "functions/live/main.py",
    "shared/voices/voice.py",
    "shared/speech/decoding/decoder.py",
]
UNWANTED = [
    "README.md",
    "functions/api/main.py",
    "web/page/node_modules/a-package/index.js",
    "functions/convert/__pycache__/main.cpython-311.pyc",
    "infra/terraform/main.tf",
    "tests/unit/terraform/test_image.py",
    "tools/training/a-checkpoint.pt",
]


def let_through(ignore_file: str, paths: list[str]) -> list[str]:
    lines = (ROOT / ignore_file).read_text().splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines(lines)
    return [path for path in paths if not ignored.match_file(path)]


@pytest.mark.parametrize("ignore_file", [".dockerignore", ".gcloudignore"])
def test_an_upload_holds_what_the_image_is_made_of_and_nothing_else(ignore_file: str) -> None:
    assert let_through(ignore_file, NEEDED + UNWANTED) == NEEDED


def test_a_change_of_anything_in_the_image_makes_a_new_image(terraform: TerraformModule) -> None:
    patterns = pathspec.GitIgnoreSpec.from_lines(
        f"/{pattern}"
        for name in ("shared_patterns", "image_patterns")
        for pattern in terraform.locals[name]
    )
    found = [
        path.relative_to(ROOT).as_posix()
        for top in ("characters", "functions", "shared")
        for path in (ROOT / top).rglob("*")
        if path.is_file()
    ]
    inside = let_through(".dockerignore", [*found, "functions/__init__.py", ".dockerignore"])

    assert [path for path in inside if not patterns.match_file(path)] == []
    assert patterns.match_file("functions/convert/Dockerfile")


def instructions(name: str) -> list[str]:
    """Return what follows an instruction's name in the Dockerfile, for every such line."""
    lines = DOCKERFILE.read_text().splitlines()
    return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


def test_the_functions_and_the_container_run_the_same_python(terraform: TerraformModule) -> None:
    version = terraform.locals["python_version"]

    base, *others = instructions("ARG")
    assert others == ["PROVIDER=cpu"]
    assert instructions("FROM") == ["${BASE} AS build", "${BASE}"]
    image = rf"mirror\.gcr\.io/library/python:{re.escape(version)}\.\d+-slim-\w+"
    assert re.fullmatch(rf"BASE={image}@sha256:[0-9a-f]{{64}}", base)
    assert f"python{version}" in DOCKERFILE.read_text()


def packages_in(requirements: Path) -> dict[str, str]:
    """Return the text about each package, with its hashes, by name."""
    texts = re.split(r"^(?=\S)", requirements.read_text(), flags=re.MULTILINE)[1:]
    return {text.partition("==")[0]: text.strip() for text in texts}


def test_an_image_for_a_gpu_differs_only_in_its_build_of_onnx_runtime(tmp_path: Path) -> None:
    folder = DOCKERFILE.parent
    for_cpus = packages_in(folder / "requirements.txt")
    for_gpus = packages_in(folder / "requirements-cuda.txt")
    command = re.search(r"sed -i '(\S+)' /source/requirements.txt", DOCKERFILE.read_text())
    assert command is not None
    taken_out = tmp_path / "requirements.txt"
    shutil.copy(folder / "requirements.txt", taken_out)
    subprocess.run(["sed", "-i", command[1], taken_out], check=True)  # noqa: S607

    assert all(name.startswith("nvidia-") or name == "onnxruntime-gpu" for name in for_gpus)
    assert {name: each for name, each in for_cpus.items() if name != "onnxruntime"} == packages_in(
        taken_out
    )
    assert "onnxruntime" in for_cpus
    assert "# syntax=" not in DOCKERFILE.read_text()


@pytest.mark.parametrize(
    "requirements", sorted(ROOT.glob("functions/*/requirements*.txt")), ids=str
)
def test_what_is_deployed_is_installed_from_the_files_that_were_locked(requirements: Path) -> None:
    packages = packages_in(requirements)

    assert packages
    for name, text in packages.items():
        first, *hashes = text.replace("\\\n", "").split()
        assert re.fullmatch(r"[a-z0-9-]+==[\w.+!-]+", first), name
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name


def test_everything_that_is_copied_from_the_checkout_is_let_through() -> None:
    copied = [one.split()[0] for one in instructions("COPY") if not one.startswith("--from")]

    assert len(copied) >= 4
    for source in copied:
        assert [path for path in NEEDED if path.startswith(source)], source


def test_the_container_runs_as_a_user_without_rights_and_starts_convert() -> None:
    (user,) = instructions("USER")
    (command,) = instructions("CMD")

    # Cloud Run cannot check whether a named user is root.
    assert int(user.partition(":")[0]) > 1000
    assert json.loads(command) == ["python", "-m", "functions.convert"]
    assert instructions("WORKDIR") == ["/app"]


def test_the_port_of_the_image_is_the_one_that_cloud_run_asks(terraform: TerraformModule) -> None:
    assert instructions("EXPOSE") == [str(terraform.locals["port"])]
