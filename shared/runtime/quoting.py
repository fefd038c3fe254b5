"""Untrusted texts in messages, logs and reports, such as names out of files."""

from __future__ import annotations

from typing import Final

_LONGEST_QUOTED: Final = 80
_LONGEST_PRINTABLE: Final = 1_000
_LARGEST_NUMBER: Final = 1 << 1_000  # Python writes no number of more than some thousand digits


def quoted(value: object) -> str:
    """Return a value out of a file as a message may show it: quoted, short and in one line.

    Characters that are invisible, end a line, turn the text or steer a terminal are escaped.
    """
    if isinstance(value, str | bytes):
        return _cut(repr(value[: _LONGEST_QUOTED + 1]), _LONGEST_QUOTED)
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        return "a long int"
    if value is None or isinstance(value, int | float):
        return _cut(repr(value), _LONGEST_QUOTED)
    return f"a {type(value).__name__}"


def printable(text: str) -> str:
    """Return a sentence that may repeat a text out of a file, with the same escapes."""
    begin = text[: _LONGEST_PRINTABLE + 1]
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in begin)
    return _cut(shown, _LONGEST_PRINTABLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
