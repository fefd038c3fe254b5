"""The flow of a push subscription, as Google describes it.

https://cloud.google.com/pubsub/docs/push: the window of pushes under way begins small and opens
with success (slow start). Negative answers stop the delivery of all messages of the subscription
for a while, whatever its retry policy says (push backoff); this cannot be switched off. Google
gives two figures, one delivery every .5 s at one negative answer a second, and one every 30 to 60 s
at five; what lies between them is assumed.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """The figures of the flow.

    Attributes:
        linear_from: pushes under way from which the window grows linearly, not exponentially.
        counted_seconds: the time over which negative answers are counted.
        pause_at_one: seconds between deliveries at one negative answer a second.
        pause_growth: factor of the pause for each further one.
    """

    first_window: float = 5.0
    linear_from: float = 3000.0
    counted_seconds: float = 10.0
    pause_at_one: float = 0.5
    pause_growth: float = 3.08
    least_pause: float = 0.1
    most_pause: float = 60.0

    def of_sample(self, weight: int) -> FlowLimits:
        """Return the limits of a flow in which every message stands for so many."""
        return replace(
            self,
            first_window=self.first_window / weight,
            linear_from=self.linear_from / weight,
            pause_at_one=weight * self.pause_at_one * self.pause_growth ** (weight - 1),
            pause_growth=self.pause_growth**weight,
            least_pause=weight * self.least_pause,
            most_pause=weight * self.most_pause,
        )


class PushFlow:
    """The window and the push backoff of one subscription, in seconds of the caller's clock."""

    def __init__(self, limits: FlowLimits = FlowLimits()) -> None:
        self._limits = limits
        self._refusals: deque[float] = deque()
        self._next_delivery = 0.0
        self.window = limits.first_window
        self.outstanding = self.refused = 0

    def begin(self, now: float) -> float:
        """Begin a push and return 0, or return the seconds until one may begin.

        They are infinite while the window is full: then the end of a push makes room.
        """
        if self.outstanding >= self.window:
            return math.inf
        if now < self._next_delivery:
            return self._next_delivery - now
        self.outstanding += 1
        self._next_delivery = now + self.backoff(now)
        return 0.0

    def end(self, now: float, *, acknowledged: bool) -> None:
        """End a push with a positive or a negative answer; none in time is a negative one."""
        limits = self._limits
        self.outstanding -= 1
        if acknowledged:
            is_slow = self.window >= limits.linear_from
            self.window += limits.linear_from / self.window if is_slow else 1.0
            return
        self.refused += 1
        self._refusals.append(now)
        self.window = max(limits.first_window, min(self.window, limits.linear_from) - 1.0)
        self._next_delivery = max(self._next_delivery, now + self.backoff(now))

    def backoff(self, now: float) -> float:
        """Return the seconds between two deliveries that recent negative answers cause."""
        limits = self._limits
        while self._refusals and self._refusals[0] < now - limits.counted_seconds:
            self._refusals.popleft()
        if not self._refusals:
            return 0.0
        rate = len(self._refusals) / limits.counted_seconds
        pause = limits.pause_at_one * math.pow(limits.pause_growth, min(10.0, rate - 1.0))
        return max(limits.least_pause, min(limits.most_pause, pause))
