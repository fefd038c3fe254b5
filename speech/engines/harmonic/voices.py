"""Voices that go on: a harmonic graph run again and again, a few frames at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from speech.signal.arrays import Samples
from speech.signal.noise import Noise

LOOKAHEAD = 12
"""Frames after those that are spoken that the network listens to. Its receptive field reaches 28
frames; without the last 16 of them, spectra differ by 0.4 dB from those with all."""
LOOKBACK = 88
"""Frames up to the end of those that are spoken that a step says something about."""


@dataclass(frozen=True)
class Step:
    """What a voice speaks its next frames from.

    Attributes:
        end: the frame of the recording after those that are to be spoken.
        wave: returns the recording at 16 kHz from one sample to another, silence before it began.
        f0: the frequencies to speak at, in Hz, float32 [LOOKBACK + LOOKAHEAD]; all but the last
            LOOKAHEAD - 1 are decided and do not change any more.
        voicing: of the same frames.
        noise: of the whole voice; frame t lies in the middle of hops t and t + 1.
    """

    end: int
    wave: Callable[[int, int], Samples]
    f0: Samples
    voicing: Samples
    noise: Noise


class RunningVoice(Protocol):
    """Speaks frame by frame."""

    @property
    def frames(self) -> int:
        """How many frames it speaks at a time."""

    def speak(self, step: Step) -> Samples:
        """Speak the next frames.

        Returns:
            Samples at any level, float32 [frames hop], of which the last belongs a frame before
            the step's end.
        """
