"""What a voice has said, piece by piece, on its way to a listener."""

from collections.abc import Iterable, Iterator

import numpy as np

from speech.engines.base import Samples
from speech.engines.loudness import fade_ends, limit
from speech.engines.speaking import SpeechOptions

_SILENCE = 4e-4  # -68 dB of full scale
_MARGIN_SECONDS = 0.02  # beginnings are soft, and must not be cut off


def deliver(
    pieces: Iterable[Samples], sample_rate: int, options: SpeechOptions, pause_seconds: float
) -> Iterator[Samples]:
    """Bring the pieces of a text to their level, with the silences asked for around them.

    The first piece is brought to full scale, as Style-Bert-VITS2 does it; those after it keep their
    level beside it, unless they would be louder than full scale.

    Args:
        pieces: what the voice said, float32 [N] each, at any level.
        sample_rate: of the pieces, in Hz.
        options: what was asked for.
        pause_seconds: silence between two pieces, before options.pause lengthens it.

    Returns:
        Pieces to be played one after the other; the first begins with the silence before, the last
        one is the silence after.
    """
    silence = options.silence_before
    gain = np.inf
    for piece in pieces:
        spoken = trim(piece, sample_rate)
        if len(spoken) == 0:
            continue
        gain = min(gain, 1.0 / float(np.abs(spoken).max()))
        loud = limit(spoken * np.float32(gain * options.volume), sample_rate)
        yield np.concatenate([_silent(silence, sample_rate), fade_ends(loud, sample_rate)])
        silence = pause_seconds * options.pause
    yield _silent(options.silence_after, sample_rate)


def trim(samples: Samples, sample_rate: int) -> Samples:
    """Remove the silence at both ends of what a voice said; nothing remains of silence alone."""
    loud = np.flatnonzero(np.abs(samples) > _SILENCE)
    if len(loud) == 0:
        return samples[:0]
    margin = round(_MARGIN_SECONDS * sample_rate)
    return samples[max(loud[0] - margin, 0) : loud[-1] + 1 + margin]


def _silent(seconds: float, sample_rate: int) -> Samples:
    return np.zeros(round(seconds * sample_rate), np.float32)
