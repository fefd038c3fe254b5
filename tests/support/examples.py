"""The examples of a page, and running them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def python_examples(text: str) -> list[str]:
    """The Python examples of a text in Markdown, in their order."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str, command: str) -> list[list[str]]:
    """The arguments of each line of a shell example that begins with a command, in their order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(command)]
    return [shlex.split(line.removeprefix(command), comments=True) for line in lines]


def run(program: str, folder: Path, seconds: float) -> str:
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
