"""Content features on their way from the encoder to the synthesizer."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

SAMPLE_RATE = 16_000
HOP = 160  # samples per frame of the synthesizer
UNPROTECTED = 0.5
_RECEPTIVE_FIELD = 400  # samples that one feature hears
_STRIDE = 320


def feature_count(samples: int) -> int:
    """Count the features that a content encoder makes of so many samples at 16 kHz."""
    return max((samples - _RECEPTIVE_FIELD) // _STRIDE + 1, 0)


def frame_count(samples: int) -> int:
    """Count the frames of 10 ms for which so many samples at 16 kHz give features."""
    return min(samples // HOP, 2 * feature_count(samples))


def to_frames(features: Array, frames: int) -> Array:
    """Repeat each feature, so that 50 per second become 100: [T50, C] to [frames, C]."""
    return np.repeat(features, 2, axis=0)[:frames]


def protect_unvoiced(retrieved: Array, heard: Array, hertz: Array, protect: float) -> Array:
    """Use less of the retrieved features in unvoiced frames.

    Retrieval smears consonants and breath. So unvoiced frames take only the share `protect` of the
    retrieved features, and the rest from the features of the recording.

    Args:
        retrieved: features after the retrieval, [T, C].
        heard: features before it, [T, C].
        hertz: fundamental frequency, below 1 where a frame is unvoiced, [T].
        protect: share of the retrieved features in unvoiced frames; 0.5 or more protects nothing.
    """
    if protect >= UNPROTECTED:
        return retrieved
    share = np.where(hertz < 1, np.float32(protect), np.float32(1))[:, None]
    protected = retrieved * share + heard * (np.float32(1) - share)
    return protected.astype(np.float32, copy=False)
