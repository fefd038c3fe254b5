"""Which parts of a recording go through an RVC voice: those in which somebody speaks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk, cut_at_pauses

PADDING = 30  # frames: 0.3 s that the networks hear before and after a piece
LONGEST = 1_000  # frames: a synthesizer takes about 100 MB of memory for a second
_PAUSE = 40  # frames: a longer pause parts phrases
_GRID = 10  # frames, of which phrases begin and end at a multiple
_UNSURE = 12  # frames at the end of what has come, in which speech may have begun


def plan_phrases(
    speech: NDArray[np.bool_], levels: Samples, longest: int = LONGEST
) -> list[list[Chunk]]:
    """Plan the pieces of a recording, phrase by phrase; pauses between phrases are left out.

    Converting the padding of two pieces costs somewhat more than the shortest of these pauses, but
    the phrase before a pause can be converted while the next one is spoken. Long phrases are cut at
    the quietest places.

    Args:
        speech: the frames in which somebody speaks, bool [T].
        levels: level of each frame in dB, [T].
        longest: frames of a piece, without padding.

    Returns:
        Phrases in order, each with its pieces in order, in frames of the recording padded by
        PADDING frames at the beginning. All pieces have that many frames of context on both sides.
    """
    return [
        [
            Chunk(
                begin + part.begin + PADDING, begin + part.end + PADDING,
                begin + part.begin, begin + part.end + 2 * PADDING,
            )
            for part in cut_at_pauses(levels[begin:end], longest)
        ]
        for begin, end in _spoken(speech)
    ]  # fmt: skip


def is_complete(phrase: Sequence[Chunk], frames: int) -> bool:
    """Whether what is said later belongs to another phrase.

    Args:
        phrase: its pieces, as `plan_phrases` returns them.
        frames: how many there are of the recording so far.
    """
    return phrase[-1].end - PADDING + _PAUSE + _UNSURE <= frames


def _spoken(speech: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """List where speech begins and ends, short pauses included.

    Where exactly speech begins is told by the levels of the whole recording. The grid keeps what
    comes later from moving a phrase that is over.
    """
    frames = np.flatnonzero(speech)
    if len(frames) == 0:
        return []
    pauses = np.flatnonzero(np.diff(frames) > _PAUSE)
    begins = frames[np.concatenate([[0], pauses + 1])]
    ends = frames[np.concatenate([pauses, [len(frames) - 1]])] + 1
    begins, ends = begins // _GRID * _GRID, np.minimum(-(-ends // _GRID) * _GRID, len(speech))
    return [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]
