"""Which parts of a recording go through an RVC voice: those in which somebody speaks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speech.engines.base import Samples
from speech.engines.chunks import Chunk, cut_at_pauses

PADDING = 30  # frames: 0.3 s that the networks hear before and after a piece
LONGEST = 1_000  # frames: a synthesizer takes about 100 MB of memory for a second


def plan_pieces(speech: NDArray[np.bool_], levels: Samples, longest: int = LONGEST) -> list[Chunk]:
    """Plan the pieces of a recording; pauses between them are left out.

    A pause is left out if that saves more than the padding of two pieces costs. Long speech is cut
    at the quietest places.

    Args:
        speech: the frames in which somebody speaks, bool [T].
        levels: level of each frame in dB, [T].
        longest: frames of a piece, without padding.

    Returns:
        Pieces in order, in frames of the recording padded by PADDING frames at the beginning. All
        of them have that many frames of context on both sides.
    """
    pieces = []
    for begin, end in _spoken(speech):
        for part in cut_at_pauses(levels[begin:end], longest):
            first, last = begin + part.begin, begin + part.end
            pieces.append(Chunk(first + PADDING, last + PADDING, first, last + 2 * PADDING))
    return pieces


def _spoken(speech: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """List where speech begins and ends, short pauses included."""
    frames = np.flatnonzero(speech)
    if len(frames) == 0:
        return []
    pauses = np.flatnonzero(np.diff(frames) > 2 * PADDING)
    begins = frames[np.concatenate([[0], pauses + 1])]
    ends = frames[np.concatenate([pauses, [len(frames) - 1]])] + 1
    return [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]
