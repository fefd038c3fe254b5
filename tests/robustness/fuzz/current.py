"""Keeps the current input of a process so that it survives a crash of the process."""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LARGEST_INPUT = 64 << 20


@contextmanager
def noted(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Keep the current input in a file, which a crash of the process leaves intact."""
    with path.open("w+b") as file:
        file.truncate(8 + LARGEST_INPUT)
        with mmap.mmap(file.fileno(), 8 + LARGEST_INPUT) as memory:

            def note(data: bytes) -> None:
                memory[:8] = len(data).to_bytes(8, "big")
                memory[8 : 8 + len(data)] = data

            yield note


def read_current(path: Path) -> bytes | None:
    """Return the input that a process tried last, if it tried one."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(int.from_bytes(file.read(8), "big"))
