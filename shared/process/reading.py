"""Reads files that others have written, which may be of any size, or no files at all."""

import errno
import os
from pathlib import Path


def read_at_most(path: Path, most: int) -> bytes:
    """Read a file of at most so many bytes.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe or a device, which may never end.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a file, found something else", str(path))
    with path.open("rb") as file:
        # First its size, which costs no memory: a file may say that it has terabytes.
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"expected at most {most} bytes, found more", str(path))
    return content
