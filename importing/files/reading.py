"""Reads a file that a person names, up to a limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from importing.files.errors import VoiceFileError

if TYPE_CHECKING:
    from pathlib import Path


def read_file(path: Path, most: int) -> bytes:
    """Read a file of at most so many bytes.

    Raises:
        VoiceFileError: it cannot be read, or is larger.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            # First its size, which costs no memory: a file may say that it has terabytes.
            is_larger = os.fstat(file.fileno()).st_size > most
            content = b"" if is_larger else file.read(most + 1)
    except OSError as error:
        raise VoiceFileError(f"expected a readable file, found none ({error.strerror}).") from error
    if is_larger or len(content) > most:
        raise VoiceFileError(f"expected at most {most} bytes, found more.")
    return content


def require_file(path: Path) -> None:
    """Refuse a pipe, a device and a folder, of which some would be waited for without an end.

    Raises:
        VoiceFileError: it is one of them.
    """
    if path.exists() and not path.is_file():
        raise VoiceFileError("expected a file, found something else.")
