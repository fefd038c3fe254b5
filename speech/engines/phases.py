"""Pulses that go on across the cuts of a long recording."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speech.engines.base import Samples
from speech.engines.chunks import Chunk
from speech.engines.levels import FRAMES_PER_SECOND

_FREE = 4  # frames before the cut that are already heard, or nearly


def join_phases(chunks: Sequence[Chunk], f0: Samples) -> list[Samples]:
    """Give each piece a contour with which its pulses meet those of the piece before at the cut.

    Every piece is spoken from phase 0. In its lead-in, which nobody hears, the frequency is bent by
    a few hertz, so that it arrives at the cut with the phase that the piece before has there.

    Args:
        chunks: the pieces of the recording.
        f0: the contour of the whole recording in Hz, float32 [T].

    Returns:
        The contour of each piece from its `first` to its `last` frame.
    """
    contours: list[Samples] = []
    for index, chunk in enumerate(chunks):
        contour = f0[chunk.first : chunk.last]
        if index > 0:
            before = chunks[index - 1]
            wanted = _cycles(contours[-1], chunk.begin - before.first)
            contour = _arrive(contour, chunk.begin - chunk.first, wanted)
        contours.append(contour)
    return contours


def _arrive(contour: Samples, lead_in: int, wanted: float) -> Samples:
    """Bend a contour before frame `lead_in`, so that it arrives there with the wanted cycles."""
    bent = contour.astype(np.float64)
    bump = np.zeros(len(bent))
    bump[1 : lead_in - _FREE] = np.hanning(lead_in - _FREE + 1)[1:-1]
    missing = wanted - _cycles(contour, lead_in)
    missing -= round(missing)
    bent += bump * (missing / _cycles(bump, lead_in))
    return bent.astype(np.float32)


def _cycles(contour: NDArray[np.floating], frame: int) -> float:
    """Count the cycles from the start of the pulses, one frame before the first, to a frame."""
    passed = contour[: frame + 1].astype(np.float64)
    straight = passed.sum() - (passed[0] + passed[-1]) / 2
    return float(passed[0] + straight) / FRAMES_PER_SECOND
