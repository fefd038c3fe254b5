"""The array that speech is kept in."""

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Samples of one channel, nominally within -1..1."""
