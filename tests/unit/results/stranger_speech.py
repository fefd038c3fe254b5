"""Speech of a real reader, to be marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import av
import numpy as np

if TYPE_CHECKING:
    from shared.speech.signal.sound import Samples

RATE: Final = 24_000
PEOPLE: Final = Path(__file__).parents[3] / "tools" / "training" / "people" / "strangers"


def read_aloud(seconds: float, reader: str = "1688") -> Samples:
    """Return what a reader says: float32 at RATE."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
    with av.open(str(PEOPLE / f"{reader}.opus")) as source:
        frames = [
            resampled.to_ndarray()
            for frame in (*source.decode(audio=0), None)
            for resampled in resampler.resample(frame)
        ]
    samples: Samples = np.concatenate(frames, axis=1)[0]
    return samples[: round(seconds * RATE)].copy()
