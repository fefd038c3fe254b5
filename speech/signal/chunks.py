"""Long recordings in pieces: cut in the quietest places, joined without audible seams."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from speech.signal.arrays import Samples
from speech.signal.levels import smooth

LONGEST = 2_000  # frames: 20 s
CONTEXT = 60  # frames of its neighbours that a piece is converted with
_CROSSFADE = 2
_PAUSE = 15


@dataclass(frozen=True)
class Chunk:
    """A piece of a recording, in frames.

    Attributes:
        begin: the piece's first own frame.
        end: the frame after its last own frame.
        first: the first frame with which it is converted.
        last: the frame after the last one with which it is converted.
    """

    begin: int
    end: int
    first: int
    last: int


def cut_at_pauses(levels: Samples, longest: int = LONGEST) -> list[Chunk]:
    """Cut a recording into pieces of at most `longest` frames, at the quietest places.

    Args:
        levels: level of each frame in dB, [T].
        longest: most frames of a piece, without context.

    Returns:
        Pieces in order, without gaps; all but the last have at least half of the most frames.
    """
    quiet = smooth(levels, _PAUSE)
    cuts = [0]
    while len(levels) - cuts[-1] > longest:
        earliest = cuts[-1] + longest // 2
        latest = min(cuts[-1] + longest, len(levels) - longest // 4)
        cuts.append(earliest + int(np.argmin(quiet[earliest:latest])))
    cuts.append(len(levels))
    return [
        Chunk(begin, end, max(begin - CONTEXT, 0), min(end + CONTEXT, len(levels)))
        for begin, end in pairwise(cuts)
    ]


def join(pieces: Sequence[tuple[Chunk, Samples]], hop: int) -> Samples:
    """Join converted pieces with a crossfade of 20 ms at each cut.

    What lies between pieces that do not touch is silent.

    Args:
        pieces: each with its samples from its `first` frame to its `last`, in order.
        hop: samples per frame.

    Returns:
        The samples of all frames.
    """
    if len(pieces) == 1 and pieces[0][0].first == 0:
        return pieces[0][1]
    joined = np.zeros(pieces[-1][0].last * hop, np.float32)
    for chunk, samples in pieces:
        weights = np.interp(
            np.arange(chunk.first * hop, chunk.last * hop),
            *_trapezium(chunk, hop),
        )
        joined[chunk.first * hop : chunk.last * hop] += samples * weights.astype(np.float32)
    return joined


def _trapezium(chunk: Chunk, hop: int) -> tuple[list[int], list[float]]:
    """The corners of a piece's weights: around a cut it fades over one frame on either side."""
    half = _CROSSFADE * hop // 2
    corners: list[int] = []
    weights: list[float] = []
    if chunk.first < chunk.begin:
        corners += [chunk.begin * hop - half, chunk.begin * hop + half]
        weights += [0.0, 1.0]
    if chunk.end < chunk.last:
        corners += [chunk.end * hop - half, chunk.end * hop + half]
        weights += [1.0, 0.0]
    return corners or [0], weights or [1.0]
