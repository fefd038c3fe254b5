"""Names of buckets and objects: what is allowed, and how they stand in an address."""

from __future__ import annotations

import re
from urllib.parse import unquote

from infra.local.storage.protocol.errors import InvalidArgumentError

MAX_OBJECT_NAME_BYTES = 1024

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_MAX_BUCKET_LABEL = 63
# First segments of the server's own addresses; see app.py.
_RESERVED_BUCKET_NAMES = frozenset({"storage", "upload", "download"})


def decoded(segment: str) -> str:
    """The name in a percent-encoded path segment.

    Raises:
        InvalidArgumentError: the segment does not decode to UTF-8.
    """
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"The path segment {segment!r} is not UTF-8.") from error


def checked_bucket_name(name: object) -> str:
    """A bucket name that Cloud Storage would accept.

    Rules: https://cloud.google.com/storage/docs/buckets#naming

    Raises:
        InvalidArgumentError: it would not.
    """
    if not isinstance(name, str) or not _BUCKET_NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"Invalid bucket name: {name!r}. Use 3-63 of a-z, 0-9, '-', '_' and '.', "
            "starting and ending with a letter or a digit."
        )
    if any(not 0 < len(label) <= _MAX_BUCKET_LABEL for label in name.split(".")):
        raise InvalidArgumentError(f"Invalid bucket name: {name!r}. A part is empty or too long.")
    if name in _RESERVED_BUCKET_NAMES:
        raise InvalidArgumentError(f"Invalid bucket name: {name!r} is reserved.")
    return name


def checked_object_name(name: object) -> str:
    """An object name that Cloud Storage would accept.

    Rules: https://cloud.google.com/storage/docs/objects#naming

    Raises:
        InvalidArgumentError: it would not.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError("The object has no name.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgumentError("The object name is not valid Unicode.") from error
    if size > MAX_OBJECT_NAME_BYTES:
        raise InvalidArgumentError(
            f"The object name has {size} bytes of UTF-8; {MAX_OBJECT_NAME_BYTES} are allowed."
        )
    if name in {".", ".."} or "\r" in name or "\n" in name:
        raise InvalidArgumentError(f"Disallowed object name: {name!r}.")
    if name.startswith(".well-known/acme-challenge/"):
        raise InvalidArgumentError(f"Disallowed object name: {name!r}.")
    return name
