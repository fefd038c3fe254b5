"""The local cloud as the user starts it: a process that a signal stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from infra.local.cloud.local_cloud import EmulatorsMissingError, find_emulators

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "infra" / "local" / "samples" / "hello.webm"
STOP_SECONDS = 60


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "infra.local", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def require_emulators() -> None:
    try:
        find_emulators()
    except EmulatorsMissingError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def run(
    *arguments: str | Path, cwd: Path = ROOT, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**environment(), **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def served_process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    if "--emulators" in arguments:
        require_emulators()
    process = subprocess.Popen(
        command("serve", "--folder", folder, *arguments),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_until_up(process, folder)
        children = children_of(process)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
            process.communicate()
    # Every test of what is served proves that nothing is left of it after Ctrl-C.
    assert still_running(children) == []
    assert not (folder / "endpoints.json").exists()


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def still_running(children: Sequence[psutil.Process]) -> list[str]:
    """The names of the processes that do not end soon."""
    _, alive = psutil.wait_procs(children, timeout=20)
    return [child.name() for child in alive]


@contextmanager
def served_cloud(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    with served_process(folder, *arguments):
        endpoints = json.loads((folder / "endpoints.json").read_text())
        yield endpoints
    assert not psutil.pid_exists(endpoints["pid"])


def _wait_until_up(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.stdout is not None
    said: Sequence[str] = []
    for line in process.stdout:
        said = [*said, line]
        if "endpoints.json" in line:
            return
    pytest.fail(f"the local cloud did not come up in {folder}:\n{''.join(said)}")
