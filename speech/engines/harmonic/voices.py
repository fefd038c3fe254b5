"""Voices that go on: a harmonic graph run again and again, a few frames at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from speech.networks.session import GraphSession
from speech.signal.arrays import Samples
from speech.signal.noise import Noise
from speech.signal.phases import arrive, cycles
from speech.signal.pitch.f0 import HOP

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


class WindowVoice:
    """A graph that knows only whole recordings, on a window that moves on.

    Each window's pulses begin with phase 0. In the part that is not heard, the frequency is changed
    by a few hertz, so that the phase is that of the window before; a crossfade of 10 ms hides what
    still differs.

    Args:
        session: runs a graph of the role `harmonic`.
        hop: samples per frame of the voice.
        frames: how many frames to speak at a time.
    """

    def __init__(self, session: GraphSession, hop: int, frames: int) -> None:
        self._session = session
        self._hop = hop
        self.frames = frames
        self._begin = LOOKBACK - frames - 1
        self._cycles: float | None = None
        self._overlap = np.zeros(hop, np.float32)
        self._rise = (np.arange(hop, dtype=np.float32) + np.float32(0.5)) / np.float32(hop)

    def speak(self, step: Step) -> Samples:
        """Speak the next frames; see RunningVoice."""
        first, end = step.end - LOOKBACK, LOOKBACK - 1
        f0 = step.f0
        if self._cycles is not None:
            f0 = arrive(f0, self._begin, self._cycles)
        inputs = {
            "wave": step.wave(first * HOP, (step.end + LOOKAHEAD) * HOP),
            "f0": f0,
            "voicing": step.voicing,
            "noise": step.noise.read(first * self._hop, (len(f0) + 1) * self._hop),
        }
        batch = {name: value[None] for name, value in inputs.items()}
        audio = self._session.run(batch, "audio").ravel()
        self._cycles = cycles(f0, end)
        spoken = audio[self._begin * self._hop : end * self._hop].copy()
        spoken[: self._hop] *= self._rise
        spoken[: self._hop] += self._overlap * self._rise[::-1]
        self._overlap = audio[end * self._hop : (end + 1) * self._hop]
        return spoken
