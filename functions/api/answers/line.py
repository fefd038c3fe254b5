"""When to come back: honest times for visitors who cannot be served just now."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SEEN_SECONDS: Final = 10.0
"""Over how many seconds is counted how many visitors were served."""

SOONEST_SECONDS: Final = 2.0
"""Services that do not answer usually do so again after so long."""

LATEST_SECONDS: Final = 60.0
"""Nobody is sent away for longer: by then Google's services and Cloud Run have grown.

Clients wait for two minutes in all, so that each comes back at least once.
"""

SLOWEST_RATE: Final = 1.0
"""So many visitors a second are called back even where none was served."""


class Line:
    """The visitors who were asked to come back later, in the order in which they came.

    Each gets a turn of its own. There are as many turns a second as visitors were served here in
    the last seconds, so that those who come back find room and are not sent away once more. Each
    instance counts for itself, as in `limits.py`.

    Args:
        now: a clock in seconds that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._served: deque[float] = deque()
        self._last_turn = -math.inf

    def served(self) -> None:
        """Count a visitor who was served."""
        self._served.append(self._now())
        self._forget()

    def turn(self) -> int:
        """Return the seconds after which one more visitor shall come back."""
        self._forget()
        now = self._now()
        rate = max(SLOWEST_RATE, len(self._served) / SEEN_SECONDS)
        turn = max(self._last_turn + 1 / rate, now + SOONEST_SECONDS)
        self._last_turn = min(turn, now + LATEST_SECONDS)
        return math.ceil(self._last_turn - now)

    def _forget(self) -> None:
        while self._served and self._served[0] <= self._now() - SEEN_SECONDS:
            self._served.popleft()
