"""The tests pass for whoever has made a character of their own in the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.integration.served import ROOT
from tests.unit.graphs.bundles import write_waveform_bundle
from tests.unit.graphs.small_graphs import gain_graph

if TYPE_CHECKING:
    from pathlib import Path

READ_CHARACTERS = (
    "tests/unit/api/test_main.py",
    "tests/unit/container/test_process_plan.py",
    "tests/unit/local/test_commands.py",
    "tests/unit/characters/test_manifest.py",
    "tests/unit/engines/test_characters.py",
    "tests/unit/terraform/test_archives.py",
)
"""Tests that read the folder of the characters, from every part of the project that lists it."""


def test_tests_that_read_the_characters_pass_beside_one_of_a_persons_own(tmp_path: Path) -> None:
    # The checkout as it is, but for the folder of the characters.
    for each in ROOT.iterdir():
        if each.name not in {".git", "characters"}:
            (tmp_path / each.name).symlink_to(each)
    characters = tmp_path / "characters"
    characters.mkdir()
    for each in (ROOT / "characters").iterdir():
        (characters / each.name).symlink_to(each)
    made = tmp_path / "made"
    made.mkdir()
    # By its id it would be the first of all.
    shutil.move(write_waveform_bundle(made, gain_graph(1.0), id="aaa"), characters / "aaa")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *READ_CHARACTERS],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout[-3000:]
