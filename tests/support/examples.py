"""The Python examples of a page, and running them."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def python_examples(text: str) -> list[str]:
    """The Python examples of a text in Markdown, in their order."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path, seconds: float) -> str:
    """Run a program in a folder; what it prints."""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
