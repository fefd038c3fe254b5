"""Keeps the phase of the pulses continuous across the cuts of a long recording."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk
from speech.signal.levels import FRAMES_PER_SECOND

_FREE = 4  # frames before the cut that are not bent: the crossfade makes them audible


def join_phases(chunks: Sequence[Chunk], f0: Samples) -> list[Samples]:
    """Give each piece a contour with which its phase at the cut equals that of the piece before.

    Every piece starts with phase 0. In its lead-in, which is not audible, the frequency is changed
    by a few hertz, so that the phase at the cut is that of the piece before.

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
            wanted = cycles(contours[-1], chunk.begin - before.first)
            contour = arrive(contour, chunk.begin - chunk.first, wanted)
        contours.append(contour)
    return contours


def arrive(contour: Samples, lead_in: int, wanted: float) -> Samples:
    """Change a contour before frame `lead_in`, so that its phase there has the wanted cycles.

    Args:
        contour: of a piece, in Hz, from its first frame.
        lead_in: a frame after the first ones.
        wanted: see `cycles`; whole cycles do not matter.
    """
    bent = contour.astype(np.float64)
    bump = np.zeros(len(bent))
    bump[1 : lead_in - _FREE] = np.hanning(lead_in - _FREE + 1)[1:-1]
    missing = wanted - cycles(contour, lead_in)
    missing -= round(missing)
    bent += bump * (missing / cycles(bump, lead_in))
    return bent.astype(np.float32)


def cycles(contour: NDArray[np.floating], frame: int) -> float:
    """Count the cycles of a contour up to a frame; pulses start one frame before the first."""
    passed = contour[: frame + 1].astype(np.float64)
    straight = passed.sum() - (passed[0] + passed[-1]) / 2
    return float(passed[0] + straight) / FRAMES_PER_SECOND
