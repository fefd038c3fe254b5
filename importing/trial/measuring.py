"""Measures a bundle in a process of its own: python -m importing.trial.measuring FOLDER THREADS.

A process that has just written a large graph has had all the memory already that running it takes.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from importing.files.errors import VoiceFileError
from importing.trial.trial import TrialReport, try_bundle
from speech.bundles.files import BundleError
from speech.engines.registry import ENGINES
from speech.networks.settings import SessionSettings

_SECONDS = 600


def measure(folder: Path, threads: int) -> TrialReport:
    """Convert a speech-like recording with a bundle.

    Raises:
        VoiceFileError: the bundle does not work; in one sentence, why.
    """
    told = run_module("importing.trial.measuring", str(folder), str(threads))
    return TrialReport(**json.loads(told))


def run_module(module: str, *arguments: str) -> str:
    """Run a module that tries a bundle, in a process of its own; return what it wrote.

    Raises:
        VoiceFileError: it failed; in one sentence, why.
    """
    try:
        ended = subprocess.run(  # noqa: S603 - a module of this package
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise VoiceFileError(
            f"expected two conversions of 5 s within {_SECONDS} s, found a slower voice."
        ) from error
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise VoiceFileError(lines[-1])
    return ended.stdout


def main(arguments: list[str]) -> int:
    """Measure, and write the report as JSON."""
    folder, threads = arguments
    try:
        report = try_bundle(Path(folder), ENGINES, SessionSettings(threads=int(threads)))
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump(dataclasses.asdict(report), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
