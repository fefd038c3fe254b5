"""The Python examples of README.md and docs/live.md run exactly as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
import wave
from typing import TYPE_CHECKING

import pytest

from tests.integration.served import ROOT, served_cloud

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120


def printed(page: str) -> list[str]:
    """The Python examples of a page, in their order."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path) -> str:
    """Run a program where it would be run, in the repository's root; what it prints."""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    "mode", ["--embedded", pytest.param("--emulators", marks=pytest.mark.emulators)]
)
def test_the_examples_run_beside_serve(mode: str, tmp_path: Path) -> None:
    # The root as the examples see it, so that they leave nothing in the real one.
    (tmp_path / "infra").symlink_to(ROOT / "infra")
    recording, text = printed("README.md")
    (live,) = printed("docs/live.md")
    result = tmp_path / "hina.wav"
    with served_cloud(tmp_path / ".local", mode):
        # The second example of README.md goes on with the names of the first.
        said = run(f"{recording}\n{text}\nassert done['status'] == 'done', done", tmp_path)
        assert ("done" in said) == (mode == "--emulators")
        with wave.open(str(result)) as file:
            assert file.getnframes() > file.getframerate()
        result.unlink()

        assert "'type': 'done'" in run(live, tmp_path)
        with wave.open(str(result)) as file:
            assert file.getnframes() > file.getframerate()
