"""The last values of a series that goes on, in memory that does not grow."""

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples


class History:
    """Keeps at least the last `capacity` values of a series of float32.

    Args:
        capacity: how many values can be asked for.
        shape: of one value.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...] = ()) -> None:
        self._capacity = capacity
        self._kept = np.zeros((2 * capacity, *shape), np.float32)
        self._used = 0
        self.count = 0
        """How many values were appended so far."""

    def append(self, values: NDArray[np.floating]) -> None:
        """Append at most `capacity` values."""
        if self._used + len(values) > len(self._kept):
            self._kept[: self._capacity] = self._kept[self._used - self._capacity : self._used]
            self._used = self._capacity
        self._kept[self._used : self._used + len(values)] = values
        self._used += len(values)
        self.count += len(values)

    def last(self, count: int) -> Samples:
        """Return the last `count` values, or as many as there are; valid until the next append."""
        return self._kept[self._used - min(count, self._used, self._capacity) : self._used]

    def between(self, begin: int, end: int) -> Samples:
        """Return a copy of values by their numbers in the series; those before the first are 0."""
        values = np.zeros((end - begin, *self._kept.shape[1:]), np.float32)
        first = max(begin, 0)
        offset = self._used - self.count
        values[first - begin :] = self._kept[first + offset : end + offset]
        return values
