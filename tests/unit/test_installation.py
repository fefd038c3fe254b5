"""What a person sees while packages are installed."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from requirements.installation import Shown, main

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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([sys.executable, "-c", PIP]) == 0
    assert [line.split(" ", 3)[3] for line in capsys.readouterr().out.splitlines()] == [
        "looking up packages",
        "writing packages 2",
        "packages installed in 0:00",
    ]


def test_on_a_terminal_one_line_moves_with_the_time_also_while_pip_says_nothing() -> None:
    times = iter((0.0, 0.0, 65.0, 70.0, 71.0))
    shown = Shown(Terminal(), lambda: next(times))
    shown.take("Collecting numpy==2.4.6 (from -r a.in)")
    shown.move()
    shown.take("  Downloading https://registry.example/numpy-2.4.6-cp312.whl (16.7 MB)")
    shown.end()
    written = str(shown.out.getvalue()) if isinstance(shown.out, Terminal) else ""
    assert "\n" not in written.rstrip("\n")
    assert [line.strip() for line in written.split("\r\x1b[K") if line] == [
        "0:00 looking up packages: numpy==2.4.6",
        "1:05 looking up packages: numpy==2.4.6",
        "1:10 looking up packages: numpy-2.4.6-cp312.whl (16.7 MB)",
        "1 packages installed in 1:11",
    ]


def test_when_pip_fails_its_last_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failing = "import sys; sys.exit('ERROR: No matching distribution found for nothing')"
    assert main([sys.executable, "-c", failing]) == 1
    assert "ERROR: No matching distribution" in capsys.readouterr().out
