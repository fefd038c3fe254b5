"""The array of speech, and the clock of a conversion's stages."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # samples of one channel, nominally within -1..1


class StageClock(Protocol):
    def stage(self, name: str) -> AbstractContextManager[None]: ...


class NoClock:
    def stage(self, name: str) -> AbstractContextManager[None]:
        del name
        return nullcontext()
