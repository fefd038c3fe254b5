"""Targets for languages that the target voice does not speak.

Her own sounds are Japanese. Told to say an English word, she says what a Japanese ear would
hear, and a network that learns from that alone flattens every vowel into five. So the target
of foreign speech is drawn towards the speaker's own articulation: the spectral envelope of
the source, moved to the target's vocal tract length and average spectrum, and brought back to
what her envelopes are like by a regression on her own speech.
"""

from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from training import features
from training.network import warped_axis
from training.target import CEPSTRUM_SIZE

Floats = NDArray[np.float32]

POINTS = 64
HIGHEST_HZ = 7000.0
LIFTER = 20
STRETCHES = np.exp(np.linspace(np.log(0.96), np.log(1.44), 10))
TRACT_SHARE = 0.4


def _mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2595 * np.log10(1 + hertz / 700)


def _axis() -> NDArray[np.float64]:
    top = _mel(np.array(HIGHEST_HZ))
    return 700 * (10 ** (np.linspace(_mel(np.array(90.0)), top, POINTS) / 2595) - 1)


@dataclass(frozen=True)
class Articulation:
    """Turns a source's mel spectrum into a cepstrum of the target; see the module.

    Attributes:
        weights: regression [points + 1, 35] from her log envelope below 7 kHz to her cepstrum.
        cosines: her log envelope from her cepstrum, [35, points].
    """

    weights: NDArray[np.float64]
    cosines: NDArray[np.float64]

    @classmethod
    def learn(cls, cepstra: Floats, ridge: float = 3.0) -> "Articulation":
        """From cepstra [frames, 35] of the target's speech."""
        cosines = np.cos(np.arange(CEPSTRUM_SIZE)[:, None] * warped_axis(_axis()))
        envelope = cepstra.astype(np.float64) @ cosines
        inputs = np.concatenate([envelope, np.ones((len(envelope), 1))], 1)
        penalty = ridge * len(envelope) / 100 * np.eye(POINTS + 1)
        penalty[-1, -1] = 0
        weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ cepstra)
        return cls(weights, cosines)

    def of(self, log_power: Floats, cepstra: Floats, speaking: NDArray[np.bool_]) -> Floats:
        """The source's articulation in the target's voice, [frames, 35].

        Args:
            log_power: of the source, [frames, bands].
            cepstra: what the target said at the same times.
            speaking: frames that are no pause.
        """
        envelope = cepstra.astype(np.float64) @ self.cosines
        smooth = self._smooth(log_power)
        candidates = [self._stretched(smooth, stretch) for stretch in STRETCHES]
        wanted = envelope[speaking] - envelope[speaking].mean(0)
        agreement = [self._agreement(c[speaking], wanted) for c in candidates]
        # Part of the way: the full stretch makes vowels a child's, which listeners know less well.
        stretch = STRETCHES[int(np.argmax(agreement))] ** TRACT_SHARE
        moved = self._stretched(smooth, stretch)
        moved += envelope[speaking].mean(0) - moved[speaking].mean(0)
        inputs = np.concatenate([moved, np.ones((len(moved), 1))], 1)
        result: Floats = (inputs @ self.weights).astype(np.float32)
        return result

    def _smooth(self, log_power: Floats) -> NDArray[np.float64]:
        """Log amplitude without the ripple of the harmonics."""
        coefficients = scipy.fft.dct(0.5 * log_power.astype(np.float64), axis=1, norm="ortho")
        coefficients[:, LIFTER:] = 0
        result: NDArray[np.float64] = scipy.fft.idct(coefficients, axis=1, norm="ortho")
        return result

    def _stretched(self, smooth: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
        low, high = _mel(np.array(features.LOWEST_HZ)), _mel(np.array(features.HIGHEST_HZ))
        band = (_mel(_axis() / stretch) - low) / (high - low) * (features.BANDS + 1) - 1
        band = np.clip(band, 0, features.BANDS - 1.001)
        below = band.astype(int)
        share = band - below
        return smooth[:, below] * (1 - share) + smooth[:, below + 1] * share

    def _agreement(self, moved: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
        centred = moved - moved.mean(0)
        return float((centred * wanted).sum() / np.sqrt((centred**2).sum() + 1e-9))
