"""How much of what is said is understood wrongly, in characters or in words."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WITHOUT_SPACES = frozenset({"ja"})
_SIGNS = frozenset("PSC")


@dataclass(frozen=True)
class ErrorRate:
    """What is wrong of what was said; rates of several sentences are added up.

    Attributes:
        wrong: characters or words that are missing, too many, or others.
        said: characters or words that were said.
    """

    wrong: int = 0
    said: int = 0

    def __add__(self, other: ErrorRate) -> ErrorRate:
        return ErrorRate(self.wrong + other.wrong, self.said + other.said)

    @property
    def share(self) -> float:
        """Wrong ones for each that was said; not a number if nothing was said."""
        return self.wrong / self.said if self.said else float("nan")


def units(text: str, language: str) -> list[str]:
    """Part a text into what is counted: characters of Japanese, words of other languages.

    Width, case, punctuation and, in Japanese, spaces do not count.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(c for c in folded if c.isspace() or unicodedata.category(c)[0] not in _SIGNS)
    return list("".join(kept.split())) if language in _WITHOUT_SPACES else kept.split()


def compare(said: str, understood: str, language: str) -> ErrorRate:
    """Compare what was understood with what was said."""
    wanted, found = units(said, language), units(understood, language)
    return ErrorRate(edits(wanted, found), len(wanted))


def edits(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Count what is inserted, deleted and replaced between two rows (V. I. Levenshtein, 1966)."""
    above = list(range(len(found) + 1))
    for row, one in enumerate(wanted, 1):
        current = [row]
        for column, other in enumerate(found, 1):
            current.append(
                min(above[column] + 1, current[-1] + 1, above[column - 1] + (one != other))
            )
        above = current
    return above[-1]
