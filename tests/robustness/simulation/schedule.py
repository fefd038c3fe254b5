"""The choices of one simulated run, drawn from a seed, and their shrinking."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FAULT_RATES: Final = (0.005, 0.02, 0.06, 0.15)


class Schedule:
    """The choices of a run, each named by the point at which it is made.

    A choice follows from the seed and the name of its point alone, not from the choices before it.
    So a run is described by the choices that are not the usual ones, and leaving one of them out
    changes no other.

    Args:
        unusual: the choices to make instead of drawing from the seed.
    """

    def __init__(self, seed: int, unusual: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.unusual: dict[str, str] = {}
        self._given = unusual
        self._rate = FAULT_RATES[int(self._draw("rate of faults") * len(FAULT_RATES))]

    def choose(self, point: str, usual: str, *others: str, rate: float | None = None) -> str:
        """Choose what happens at a point; `rate` is the share of the others, for faults None."""
        if self._given is not None:
            choice = self._given.get(point, usual)
        else:
            rate = self._rate if rate is None else rate
            drawn = self._draw(point)
            choice = others[int(drawn / rate * len(others))] if drawn < rate else usual
        if choice != usual:
            self.unusual[point] = choice
        return choice

    def _draw(self, point: str) -> float:
        digest = blake2b(f"{self.seed} {point}".encode(), digest_size=7).digest()
        return int.from_bytes(digest) / 2**56


def shrink(
    unusual: Mapping[str, str], fails: Callable[[Mapping[str, str]], bool]
) -> dict[str, str]:
    """Leave out choices for as long as a run still fails, large parts first (delta debugging).

    A. Zeller, R. Hildebrandt, IEEE Transactions on Software Engineering 28(2), 2002.
    """
    kept = list(unusual.items())
    size = len(kept)
    while size:
        begin, before = 0, len(kept)
        while begin < len(kept):
            fewer = kept[:begin] + kept[begin + size :]
            if fails(dict(fewer)):
                kept = fewer
            else:
                begin += size
        if size > 1:
            size = size // 2
        elif len(kept) == before:
            break
    return dict(kept)
