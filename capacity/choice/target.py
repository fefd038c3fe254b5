"""The operator's target: `p95 <= 1.0 s`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from capacity.model.errors import PlanningError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORM: Final = re.compile(r"\s*p(50|95|99)\s*<=\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound of the wait.

    Attributes:
        percentile: of the wait, from 0 to 100.
        seconds: the bound.
    """

    percentile: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a target such as `p95 <= 1.0 s`.

        Raises:
            PlanningError: it is not of that form.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise PlanningError(
                f'--target is {text!r}; write it like "p95 <= 1.0 s", with p50, p95 or p99.'
            )
        which, number, unit = match.groups()
        seconds = float(number) / (1000.0 if unit == "ms" else 1.0)
        if seconds <= 0:
            raise PlanningError(f"--target is {text!r}; nobody's wait is 0 or less.")
        return cls(int(which), seconds)

    def __str__(self) -> str:
        return f"p{self.percentile} <= {self.seconds:g} s"

    def holds(self, waits: Mapping[int, float]) -> bool:
        """Whether percentiles of the wait keep it."""
        return waits[self.percentile] <= self.seconds
