"""The images of the conversion container and of the trainer: what goes in, and how they start."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pathspec
import pytest

from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule


@dataclass(frozen=True)
class Image:
    """An image's Dockerfile, what its upload leaves out, and the list that Terraform hashes."""

    folder: Path
    ignore_files: tuple[Path, ...]
    patterns: str
    functions: set[str]

    def instructions(self, name: str) -> list[str]:
        lines = (self.folder / "Dockerfile").read_text().splitlines()
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]

    def uploaded(self) -> list[str]:
        """Return the files of the checkout that every ignore file lets through."""
        command = ["git", "ls-files"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found = done.stdout.splitlines()
        for path in self.ignore_files:
            ignored = pathspec.GitIgnoreSpec.from_lines(path.read_text().splitlines())
            found = [each for each in found if not ignored.match_file(each)]
        return found


CONVERT = Image(
    ROOT / "functions/convert",
    (ROOT / ".dockerignore",),
    "image_patterns",
    {"__init__.py", "compat", "convert", "live", "live_and_compat"},
)
TRAIN = Image(
    ROOT / "functions/train",
    (ROOT / "functions/train/Dockerfile.dockerignore",),
    "train_image_patterns",
    {"__init__.py", "train"},
)


@pytest.fixture(params=[CONVERT, TRAIN], ids=["convert", "train"])
def image(request: pytest.FixtureRequest) -> Image:
    found = request.param
    assert isinstance(found, Image)
    return found


def test_an_upload_holds_what_the_image_is_made_of_and_nothing_else(image: Image) -> None:
    inside = image.uploaded()
    functions = {path.split("/")[1] for path in inside if path.startswith("functions/")}
    copied = [one.split()[0] for one in image.instructions("COPY") if not one.startswith("--from")]

    assert functions == image.functions
    tops = {path.split("/")[0] for path in inside if "/" in path}
    assert tops <= {"characters", "functions", "shared", "tools"}
    assert ("tools" in tops) == (image is TRAIN)
    assert len(copied) >= 4
    for source in copied:
        assert [path for path in inside if path.startswith(source)], source


def test_gcloud_sends_what_docker_would() -> None:
    other = Image(CONVERT.folder, (ROOT / ".gcloudignore",), CONVERT.patterns, CONVERT.functions)

    assert set(other.uploaded()) == {*CONVERT.uploaded(), ".dockerignore"}


def test_a_change_of_anything_in_the_image_makes_a_new_image(
    terraform: TerraformModule, image: Image
) -> None:
    patterns = pathspec.GitIgnoreSpec.from_lines(
        f"/{pattern}"
        for name in ("shared_patterns", image.patterns)
        for pattern in terraform.locals[name]
    )
    code = [path for path in image.uploaded() if not path.endswith((".md", ".in", "LICENSE"))]

    assert [path for path in code if not patterns.match_file(path)] == []


def test_a_container_runs_as_a_user_without_rights_on_the_python_of_the_functions(
    terraform: TerraformModule, image: Image
) -> None:
    version = terraform.locals["python_version"]
    (user,), (command,) = image.instructions("USER"), image.instructions("CMD")
    base = image.instructions("ARG")[0]

    # Cloud Run cannot check whether a named user is root.
    assert int(user.partition(":")[0]) > 1000
    assert json.loads(command) == ["python", "-m", f"functions.{image.folder.name}"]
    # Google's mirror has no pull limit, and a digest names one image for ever.
    mirror = rf"mirror\.gcr\.io/library/python:{re.escape(version)}\.\d+-slim-\w+"
    assert re.fullmatch(rf"BASE={mirror}@sha256:[0-9a-f]{{64}}", base)


def packages_in(requirements: Path) -> dict[str, str]:
    """Return the text about each package, with its hashes, by name."""
    texts = re.split(r"^(?=\S)", requirements.read_text(), flags=re.MULTILINE)[1:]
    return {text.partition("==")[0]: text.strip() for text in texts}


def test_an_image_for_a_gpu_differs_only_in_its_build_of_onnx_runtime(tmp_path: Path) -> None:
    for_cpus = packages_in(CONVERT.folder / "requirements.txt")
    for_gpus = packages_in(CONVERT.folder / "requirements-cuda.txt")
    dockerfile = (CONVERT.folder / "Dockerfile").read_text()
    command = re.search(r"sed -i '(\S+)' /source/requirements.txt", dockerfile)
    assert command is not None
    taken_out = tmp_path / "requirements.txt"
    shutil.copy(CONVERT.folder / "requirements.txt", taken_out)
    subprocess.run(["sed", "-i", command[1], taken_out], check=True)  # noqa: S607

    assert all(name.startswith("nvidia-") or name == "onnxruntime-gpu" for name in for_gpus)
    del for_cpus["onnxruntime"]
    assert for_cpus == packages_in(taken_out)


def test_only_the_trainer_has_pytorch_and_its_build_for_cpus() -> None:
    with_torch = {
        path.parent.name
        for path in ROOT.glob("functions/*/requirements.txt")
        if "torch" in packages_in(path)
    }
    requirements = packages_in(TRAIN.folder / "requirements.txt")

    assert with_torch == {"train"}
    assert "+cpu" in requirements["torch"].split("\n")[0]
    assert not [name for name in requirements if name.startswith("nvidia-")]
    # Not from the package index: the operator says where it is, the hashes what it is.
    (install,) = (line for line in TRAIN.instructions("RUN") if "--require-hashes" in line)
    assert '--extra-index-url "${PYTORCH_INDEX:?is not set}"' in install


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
