"""The array that speech is kept in."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Samples of one channel, nominally within -1..1."""


class StageClock(Protocol):
    """Measures how long the stages of a conversion take."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure a stage: the time inside the context."""


class NoClock:
    """Measures nothing."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        del name
        return nullcontext()
