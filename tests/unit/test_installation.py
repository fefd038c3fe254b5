"""What a person sees while packages are installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from requirements.installation import main

if TYPE_CHECKING:
    import pytest

PIP = """
for line in (
    "Collecting numpy==2.4.6 (from -r requirements/local.in (line 3))",
    "  Downloading numpy-2.4.6-cp312.whl (16.7 MB)",
    "Processing /packages/onnx-1.23.2-cp312.whl",
    "Installing collected packages: numpy, onnx",
):
    print(line, flush=True)
"""


def test_without_a_terminal_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([sys.executable, "-c", PIP]) == 0
    assert [line.split(" ", 3)[3] for line in capsys.readouterr().out.splitlines()] == [
        "looking up packages",
        "writing packages 2",
        "packages installed in 0:00",
    ]


def test_when_pip_fails_its_last_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failing = "import sys; sys.exit('ERROR: No matching distribution found for nothing')"
    assert main([sys.executable, "-c", failing]) == 1
    assert "ERROR: No matching distribution" in capsys.readouterr().out
