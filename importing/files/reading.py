"""Reads a file that a person names, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from importing.files.errors import VoiceFileError

if TYPE_CHECKING:
    from pathlib import Path


def read_file(path: Path, most: int) -> bytes:
    """Read a file of at most so many bytes.

    Raises:
        VoiceFileError: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise VoiceFileError(f"expected a readable file, found none ({error.strerror}).") from error
    if len(content) > most:
        raise VoiceFileError(f"expected at most {most} bytes, found more.")
    return content
