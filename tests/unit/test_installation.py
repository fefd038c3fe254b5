"""What a person sees while packages are installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from requirements.installation import main

if TYPE_CHECKING:
    import pytest


def test_when_pip_fails_its_last_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failing = "import sys; sys.exit('ERROR: No matching distribution found for nothing')"
    assert main([sys.executable, "-c", failing]) == 1
    assert "ERROR: No matching distribution" in capsys.readouterr().out
