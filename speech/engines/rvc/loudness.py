"""The loudness mix of RVC: how far a converted voice follows the recording's loudness."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_QUIETEST = np.float32(1e-6)


def loudness_gains(
    recording: NDArray[np.floating],
    recording_rate: int,
    voice: NDArray[np.floating],
    voice_rate: int,
    mix: float,
) -> Array:
    """Work out by how much each sample of a voice is multiplied.

    The gain is (r / v)^(1 - mix), where r and v are the root mean squares of the recording and of
    the voice: over windows of a second, every half second, joined by straight lines.

    Args:
        recording: at its own rate, [N].
        recording_rate: in Hz, even.
        voice: as long in time as the recording, or nearly so, [M].
        voice_rate: in Hz, even.
        mix: 1 keeps the loudness of the voice, 0 takes that of the recording.

    Returns:
        float32 [M].
    """
    wanted = _stretch(_half_seconds(recording, recording_rate), len(voice))
    own = np.maximum(_stretch(_half_seconds(voice, voice_rate), len(voice)), _QUIETEST)
    gains = wanted ** np.float32(1 - mix) * own ** np.float32(mix - 1)
    return gains.astype(np.float32, copy=False)


def _half_seconds(samples: NDArray[np.floating], rate: int) -> Array:
    """Root mean square of the second around every half second; outside is silence."""
    hop = rate // 2
    frames = 1 + len(samples) // hop
    blocks = np.zeros((frames + 1, hop), np.float64)
    blocks.ravel()[hop : hop + len(samples)] = samples
    energies = np.einsum("bs,bs->b", blocks, blocks)
    levels: Array = np.sqrt((energies[:-1] + energies[1:]) / (2 * hop)).astype(np.float32)
    return levels


def _stretch(values: Array, count: int) -> Array:
    """Join values by straight lines, as `count` ones that cover the same time evenly."""
    at = (np.arange(count) + 0.5) * (len(values) / count) - 0.5
    stretched: Array = np.interp(at, np.arange(len(values)), values).astype(np.float32)
    return stretched
