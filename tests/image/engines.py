"""The container engines that can build and run the image: docker, podman and buildah."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Recipe:
    dockerfile: str
    tag: str

    @property
    def ignore_file(self) -> Path | None:
        """What the build leaves out, where the Dockerfile has a list of its own."""
        path = ROOT / f"{self.dockerfile}.dockerignore"
        return path if path.is_file() else None


CONVERTER: Final = Recipe("functions/convert/Dockerfile", "localhost/voice-avatar-convert:test")
TRAINER: Final = Recipe("functions/train/Dockerfile", "localhost/voice-avatar-train:test")


@dataclass(frozen=True)
class Docker:
    program: str
    recipe: Recipe

    def has(self, base: str) -> bool:
        """Return whether an image is there, or could be pulled from its registry."""
        return _works(self.program, "image", "inspect", base) or _works(self.program, "pull", base)

    def build(self, arguments: Mapping[str, str]) -> None:
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command = [self.program, "build", *options, f"--file={self.recipe.dockerfile}"]
        subprocess.run([*command, f"--tag={self.recipe.tag}", "."], cwd=ROOT, check=True)

    def run(
        self, *command: str, environment: Mapping[str, str], credentials: Path
    ) -> subprocess.Popen[str]:
        """Run a command in a new container, or the image's own command if none is given.

        If PORT is in the environment, that port of 127.0.0.1 leads to the container's.
        """
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        ports = [f"--publish=127.0.0.1:{port}:{port}" for port in _ports(environment)]
        return _started(
            *(self.program, "run", "--rm", "--read-only", "--tmpfs=/tmp", *ports, *variables),
            *(f"--volume={credentials}:{credentials}:ro", self.recipe.tag, *command),
        )

    def terminate(self, running: subprocess.Popen[str]) -> None:
        # The client passes signals on.
        running.terminate()


@dataclass(frozen=True)
class Buildah:
    """Buildah, whose containers use the host's network.

    Where it may not create namespaces, set BUILDAH_ISOLATION=chroot and STORAGE_DRIVER=vfs.
    """

    program: str
    recipe: Recipe

    def has(self, base: str) -> bool:
        return _works(self.program, "pull", "--policy=missing", base)

    def build(self, arguments: Mapping[str, str]) -> None:
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        ignored = self.recipe.ignore_file
        if ignored is not None:
            # Not every version finds it by its name.
            options.append(f"--ignorefile={ignored}")
        command = [self.program, "build", "--layers", *options, f"--file={self.recipe.dockerfile}"]
        subprocess.run([*command, f"--tag={self.recipe.tag}", "."], cwd=ROOT, check=True)

    def run(
        self, *command: str, environment: Mapping[str, str], credentials: Path
    ) -> subprocess.Popen[str]:
        container = self._output("from", "--pull-never", self.recipe.tag)
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        return _started(
            *(self.program, "run", "--network=host"),
            *(f"--volume={credentials}:{credentials}:ro", *variables, container, "--"),
            *(command or self._image_command(container)),
        )

    def terminate(self, running: subprocess.Popen[str]) -> None:
        # With the isolation chroot, buildah does not pass signals on: its own processes end.
        descendants = psutil.Process(running.pid).children(recursive=True)
        own = ("buildah-chroot-runtime", "buildah-chroot-exec")
        contained = next(one for one in descendants if one.cmdline()[0] not in own)
        contained.terminate()

    def _image_command(self, container: str) -> Sequence[str]:
        command: list[str] = json.loads(self._output("inspect", container))["OCIv1"]["config"][
            "Cmd"
        ]
        return command

    def _output(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.program, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


Engine: TypeAlias = Docker | Buildah


def find_engine(recipe: Recipe) -> Engine | None:
    """Return an engine that works here, or None; a client without its engine does not count."""
    for name, kind in (("docker", Docker), ("podman", Docker), ("buildah", Buildah)):
        program = shutil.which(name)
        if program is None:
            continue
        if _works(program, "info"):
            return kind(program, recipe)
    return None


def base_image(recipe: Recipe) -> str:
    lines = (ROOT / recipe.dockerfile).read_text().splitlines()
    return next(line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE="))


def _works(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _ports(environment: Mapping[str, str]) -> list[str]:
    return [value for name, value in environment.items() if name == "PORT"]


def _started(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@contextmanager
def stopped_at_the_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
