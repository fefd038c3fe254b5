"""Texts of strangers on a terminal: names out of files that somebody else has made."""

from __future__ import annotations

from typing import Final

_SPACES: Final = frozenset(" \n\u3000")
_IN_PLACE: Final = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """Return a text as a terminal may show it: nothing in it steers the terminal or turns text."""
    return "".join(each if each.isprintable() or each in _SPACES else _IN_PLACE for each in text)
