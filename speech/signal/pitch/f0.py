"""Fundamental frequency and voicing of speech, in numpy."""

from dataclasses import dataclass

import numpy as np

from speech.signal.levels import ranked
from speech.signal.pitch.candidates import (
    CANDIDATES,
    HOP,
    SAMPLE_RATE,
    Array,
    Candidates,
    Path,
    find_candidates,
    magnitude_spectra,
    steady_hum,
)
from speech.signal.pitch.viterbi import cheapest_path

__all__ = ["HOP", "SAMPLE_RATE", "F0Track", "Speaker", "describe_speaker", "follow", "track"]

# The weights of the path, in units of correlation, chosen by measurements on speech of known f0:
# clean, in noise, over a telephone and in a room.
_JUMP_COST = 0.5
_HIGHEST_JUMP_COST = 0.6
_VOICING_CHANGE_COST = 0.2
_VOICING_THRESHOLD = 0.21
_SILENCE = 0.008
_REGISTER_COST = 0.3
_REGISTER_OCTAVES = 0.4


@dataclass(frozen=True)
class F0Track:
    """The fundamental frequency every 10 ms; frame t is centred at sample 160 t (16 kHz).

    Attributes:
        hertz: float32 [T]; 0 where the frame is not voiced.
        voicing: float32 [T]; 1 where the frame is voiced, otherwise 0.
    """

    hertz: Array
    voicing: Array


@dataclass(frozen=True)
class Speaker:
    """What the choice of a path needs to know about the speaker.

    Attributes:
        magnitude: of the frames in which somebody speaks; see Candidates.levels.
        register: log2 of the usual frequency in hertz, or None before anything is voiced.
    """

    magnitude: float
    register: float | None


def track(wave: Array) -> F0Track:
    """Follow the fundamental frequency of one speaker.

    Candidates are the peaks of an autocorrelation divided by that of the window, and the path
    through them weighs strength against octave jumps and changes of voicing (Boersma, "Accurate
    short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a sampled
    sound", 1993). The autocorrelation is the generalised one, from the magnitude instead of the
    power spectrum, so that a strong formant or a missing fundamental has less influence (Tolonen
    and Karjalainen, 2000). Candidates far from the speaker's register, the median of the strongest
    candidates, count less (after De Looze and Hirst, 2008), which removes the remaining octave
    errors.

    Args:
        wave: mono audio at 16 kHz without offset, any level, float32 [N].

    Returns:
        One frame for every 160 samples: T = ceil(N / 160).
    """
    frames = -(-len(wave) // HOP)
    if frames == 0:
        nothing = np.zeros(0, np.float32)
        return F0Track(nothing, nothing)
    magnitudes = magnitude_spectra(wave, frames)
    candidates = find_candidates(magnitudes, steady_hum(magnitudes))
    return follow(candidates, describe_speaker(candidates))


def describe_speaker(candidates: Candidates) -> Speaker:
    """Measure how loud the speech is, and its register: the median of the strongest candidates."""
    power = candidates.levels**2
    magnitude = float(np.sqrt((power**2).sum() / max(float(power.sum()), 1e-20)))
    is_voiced = candidates.strengths[:, 0] > _unvoiced(candidates, magnitude)
    register = ranked(candidates.octaves[is_voiced, 0], 0.5) if is_voiced.any() else None
    return Speaker(magnitude, register)


def follow(candidates: Candidates, speaker: Speaker) -> F0Track:
    """Choose the best path through the candidates of one or more frames; see track."""
    path = _choose(candidates, speaker)
    frames, voiced = np.arange(len(path)), path < CANDIDATES
    octaves = candidates.octaves[frames, np.minimum(path, CANDIDATES - 1)]
    hertz = np.where(voiced, np.exp2(octaves), 0.0)
    return F0Track(hertz.astype(np.float32), voiced.astype(np.float32))


def _favour_register(candidates: Candidates, register: float | None) -> Array:
    """Weaken the candidates that lie far from the register."""
    if register is None:
        return candidates.strengths
    beyond = np.abs(candidates.octaves - np.float32(register)) - np.float32(_REGISTER_OCTAVES)
    favoured: Array = candidates.strengths - _REGISTER_COST * np.maximum(beyond, 0.0)
    return favoured


def _choose(candidates: Candidates, speaker: Speaker) -> Path:
    """Find the best path [T] through the candidates; the state after the last means unvoiced."""
    strengths = _favour_register(candidates, speaker.register)
    local = -np.concatenate([strengths.T, _unvoiced(candidates, speaker.magnitude)[None]])
    return cheapest_path(local[:, 0], _moves(candidates) + local[None, :, 1:])


def _moves(candidates: Candidates) -> Array:
    """Compute the cost of going from each state to each other at every step [K+1, K+1, T-1]."""
    octaves = np.ascontiguousarray(candidates.octaves.T)
    steps = np.full(
        (CANDIDATES + 1, CANDIDATES + 1, octaves.shape[1] - 1), _VOICING_CHANGE_COST, np.float32
    )
    jumps = steps[:-1, :-1]
    np.subtract(octaves[:, None, :-1], octaves[None, :, 1:], out=jumps)
    np.abs(jumps, out=jumps)
    jumps *= np.float32(_JUMP_COST)
    np.minimum(jumps, np.float32(_HIGHEST_JUMP_COST), out=jumps)
    steps[-1, -1] = 0.0
    return steps


def _unvoiced(candidates: Candidates, speech: float) -> Array:
    """Compute how strong a candidate must be for the frame to be voiced: [T]."""
    return np.float32(_VOICING_THRESHOLD) + _quietness(candidates.levels, speech)


def _quietness(levels: Array, speech: float) -> Array:
    """Compute how quiet each frame is, from 0 (speech) to 2 (silence): [T]."""
    quietness: Array = np.maximum(0.0, 2.0 - levels / max(speech, 1e-9) / _SILENCE)
    return quietness.astype(np.float32)
