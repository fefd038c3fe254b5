"""Loudness: follows the recording within limits, and prevents clipping."""

import numpy as np

from speech.engines.base import Samples
from speech.engines.levels import SpeechLevels, decibels, frame_power, smooth, speech_level

CEILING = 0.99
# Level of the loud parts of speech: recordings differ in level, results shall not.
_QUIETEST_DB = -13.0
_LOUDEST_DB = -10.0
_MOST_RAISED_DB = 40.0
_FOLLOWED_FRAMES = 41
HALF_WAY = 0.5
_MOST_FOLLOWED_DB = 6.0

_BLOCK_SECONDS = 0.001
_REACH_BLOCKS = 30
_FADE_SECONDS = 0.005


def match_level(voice: Samples, hop: int, recorded: Samples, recorded_hop: int) -> Samples:
    """Give the converted piece the level of the recording.

    Networks normalise each piece on its own, so that pieces would differ in loudness.
    """
    frames = len(voice) // hop
    own = speech_level(frame_power(voice, hop, frames))
    wanted = speech_level(frame_power(recorded, recorded_hop, frames))
    return voice * np.float32(10.0 ** (min(wanted - own, _MOST_RAISED_DB) / 20.0))


def follow_loudness(
    samples: Samples, hop: int, levels: SpeechLevels, share: float = HALF_WAY
) -> Samples:
    """Compute the gain of each frame that gives a voice the loudness of the recording.

    The voice as a whole becomes as loud as the recording, within limits. Within the voice, the
    loudness is moved by a share towards the recording's.

    Args:
        samples: the character's speech at any level.
        hop: its samples per frame.
        levels: of the recording, T frames.
        share: 1 follows every word's loudness, 0 none's.

    Returns:
        float32 [T].
    """
    power = frame_power(samples, hop, len(levels.frames))
    speech = speech_level(power)
    wanted = float(np.clip(levels.speech, _QUIETEST_DB, _LOUDEST_DB))
    heard = np.float32(10.0) ** (levels.frames / np.float32(10.0))
    recorded_course = decibels(smooth(heard, _FOLLOWED_FRAMES)) - levels.speech
    own_course = decibels(smooth(power, _FOLLOWED_FRAMES)) - speech
    course = np.clip(share * (recorded_course - own_course), -_MOST_FOLLOWED_DB, _MOST_FOLLOWED_DB)
    raised = min(wanted - speech, _MOST_RAISED_DB)
    return (10.0 ** ((raised + course) / 20.0)).astype(np.float32)


def apply_gains(samples: Samples, gains: Samples, hop: int) -> Samples:
    """Multiply samples by gains [T], one for every hop, interpolated linearly."""
    frames = len(gains)
    whole = np.zeros(frames * hop, np.float32)
    whole[: len(samples)] = samples[: frames * hop]
    following = np.append(gains[1:], gains[-1])
    ramp = np.arange(hop, dtype=np.float32) / np.float32(hop)
    blocks = whole.reshape(frames, hop)
    blocks *= gains[:, None] + (following - gains)[:, None] * ramp
    return whole[: len(samples)]


def limit(samples: Samples, sample_rate: int) -> Samples:
    """Keep samples within the ceiling by attenuating 30 ms around each peak instead of clipping it.

    The gain of each millisecond is the lowest that any millisecond within reach needs, averaged
    over that reach. The average of gains that are all low enough is low enough, too.
    """
    highest, lowest = samples.max(initial=0.0), samples.min(initial=0.0)
    if max(highest, -lowest) <= CEILING:
        return samples
    block = round(_BLOCK_SECONDS * sample_rate)
    count = -(-len(samples) // block)
    padded = np.zeros(count * block, np.float32)
    np.abs(samples, out=padded[: len(samples)])
    peaks = padded.reshape(count, block).max(axis=1)
    needed = np.minimum(1.0, CEILING / np.maximum(peaks, CEILING))
    reach = 2 * _REACH_BLOCKS + 1
    # One block more on each side, because the gain is interpolated between blocks.
    around = np.pad(needed, reach, constant_values=1.0)
    window = np.hanning(reach + 2)[1:-1]
    gains = np.convolve(_least(around, reach + 2), window / window.sum(), "valid")
    limited = apply_gains(samples, gains[:count].astype(np.float32), block)
    return np.clip(limited, -CEILING, CEILING)


def _least(values: Samples, count: int) -> Samples:
    """Find the minimum of each value and the count - 1 after it, doubling the window each time."""
    looked_at = 1
    while looked_at < count:
        step = min(looked_at, count - looked_at)
        values = np.minimum(values[:-step], values[step:])
        looked_at += step
    return values


def fade_ends(samples: Samples, sample_rate: int) -> Samples:
    """Fade in the first and fade out the last 5 ms."""
    length = min(round(_FADE_SECONDS * sample_rate), len(samples) // 2)
    if length == 0:
        return samples
    rise = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
    faded = samples.copy()
    faded[:length] *= rise
    faded[-length:] *= rise[::-1]
    return faded
