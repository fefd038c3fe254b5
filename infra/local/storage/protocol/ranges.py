"""The Range header of a download (RFC 9110, section 14)."""

from __future__ import annotations

import re

from infra.local.storage.protocol.errors import RangeNotSatisfiableError

_SINGLE_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def requested_range(header: str | None, size: int) -> range | None:
    """The byte positions asked for, or None for the whole content.

    A header that is malformed or asks for several ranges is ignored, as Cloud Storage does.

    Raises:
        RangeNotSatisfiableError: the range holds no byte of a content of `size` bytes.
    """
    match = _SINGLE_RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        positions = range(max(0, size - int(last)), size)
    elif last and int(last) < int(first):
        return None
    else:
        positions = range(int(first), min(size, int(last) + 1) if last else size)
    if len(positions) == 0:
        raise RangeNotSatisfiableError(
            f"{header} of {size} bytes", headers={"Content-Range": f"bytes */{size}"}
        )
    return positions
