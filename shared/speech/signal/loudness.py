"""Loudness: follows the recording within limits, and prevents clipping."""

from collections.abc import Callable, Sequence

import numpy as np

from shared.characters.manifest import CharacterManifest
from shared.speech.signal.analysis import Analysis, Chunk, analyse, gate_gains, join
from shared.speech.signal.pitch import HOP
from shared.speech.signal.samples import (
    SpeechLevels,
    check_samples,
    converted_length,
    decibels,
    fit_length,
    frame_power,
    smooth,
    speech_level,
)
from shared.speech.signal.sound import NoClock, Samples, StageClock

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


def wanted_gain_db(recorded: float, spoken: float) -> float:
    """Compute by how many dB to raise a voice of one level for a recording's level."""
    wanted = float(np.clip(recorded, _QUIETEST_DB, _LOUDEST_DB))
    return min(wanted - spoken, _MOST_RAISED_DB)


def loudness_course(
    power: Samples, speech: float, levels: SpeechLevels, share: float = HALF_WAY
) -> Samples:
    """Compute by how many dB to raise the frames of a voice to follow the recording's course.

    A share of 1 follows the loudness of every word, 0 that of none.
    """
    heard = np.float32(10.0) ** (levels.frames / np.float32(10.0))
    recorded_course = decibels(smooth(heard, _FOLLOWED_FRAMES)) - levels.speech
    own_course = decibels(smooth(power, _FOLLOWED_FRAMES)) - speech
    return np.clip(share * (recorded_course - own_course), -_MOST_FOLLOWED_DB, _MOST_FOLLOWED_DB)


def decibels_to_gain(raised: Samples) -> Samples:
    return (10.0 ** (raised / 20.0)).astype(np.float32)


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

    A millisecond's gain is the lowest that any within reach needs, averaged over that reach.
    """
    highest, lowest = samples.max(initial=0.0), samples.min(initial=0.0)
    if max(highest, -lowest) <= CEILING:
        return samples
    block = limiting_block(sample_rate)
    count = -(-len(samples) // block)
    # One block more on each side, because the gain is interpolated between blocks.
    around = np.pad(
        needed_gains(fit_length(samples, count * block), block),
        blocks_around(_REACH_BLOCKS),
        constant_values=1.0,
    )
    limited = apply_gains(samples, limiting_gains(around, _REACH_BLOCKS), block)
    return np.clip(limited, -CEILING, CEILING)


def limiting_block(sample_rate: int) -> int:
    return round(_BLOCK_SECONDS * sample_rate)


def needed_gains(samples: Samples, block: int) -> Samples:
    peaks = np.abs(samples).reshape(-1, block).max(axis=1)
    needed: Samples = np.minimum(1.0, CEILING / np.maximum(peaks, CEILING))
    return needed


def blocks_around(reach: int) -> int:
    return 2 * reach + 1


def limiting_gains(needed: Samples, reach: int) -> Samples:
    """Smooth the gains of blocks, and of `blocks_around(reach)` around them; none is exceeded."""
    width = blocks_around(reach)
    window = np.hanning(width + 2)[1:-1]
    gains = np.convolve(_least(needed, width + 2), window / window.sum(), "valid")
    return gains.astype(np.float32)


def _least(values: Samples, count: int) -> Samples:
    """Find the minimum of each value and the count - 1 after it, doubling the window each time."""
    looked_at = 1
    while looked_at < count:
        step = min(looked_at, count - looked_at)
        values = np.minimum(values[:-step], values[step:])
        looked_at += step
    return values


def fade_ends(samples: Samples, sample_rate: int) -> Samples:
    return fade_out(fade_out(samples[::-1], sample_rate)[::-1], sample_rate)


def fade_out(samples: Samples, sample_rate: int) -> Samples:
    """Fade out the last 5 ms, or the second half of fewer samples."""
    length = min(round(_FADE_SECONDS * sample_rate), len(samples) // 2)
    faded = samples.copy()
    if length > 0:
        rise = 0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)
        faded[-length:] *= rise[::-1].astype(np.float32)
    return faded


def join_pieces(
    analysis: Analysis, chunks: Sequence[Chunk], pieces: Sequence[Samples], hop: int
) -> Samples:
    """Give converted pieces the recording's level and join them: float32 [T hop]."""
    if len(chunks) == 1:
        return pieces[0]
    levelled = []
    for chunk, piece in zip(chunks, pieces, strict=True):
        # Networks normalise each piece alone.
        frames = chunk.last - chunk.first
        recorded = analysis.wave[chunk.first * HOP : chunk.last * HOP]
        wanted = speech_level(frame_power(recorded, HOP, frames))
        raised = min(wanted - speech_level(frame_power(piece, hop, frames)), _MOST_RAISED_DB)
        levelled.append((chunk, piece * np.float32(10.0 ** (raised / 20.0))))
    return join(levelled, hop)


def finish(
    voice: Samples, sample_rate: int, length: int, analysis: Analysis, *, followed: float = HALF_WAY
) -> Samples:
    """Give a converted voice the recording's silence, loudness and length: float32 [length].

    `followed` is the recording's share of every word's loudness, 0 to 1.
    """
    hop = sample_rate // 100
    gate = gate_gains(analysis.levels, analysis.speech)
    gated = apply_gains(fit_length(voice, len(gate) * hop), gate, hop)
    power = frame_power(gated, hop, len(gate))
    speech = speech_level(power)
    course = loudness_course(power, speech, analysis.levels, followed)
    raised = wanted_gain_db(analysis.levels.speech, speech) + course
    loud = apply_gains(gated, decibels_to_gain(raised), hop)
    return fade_ends(limit(fit_length(loud, length), sample_rate), sample_rate)


def convert_recording(
    samples: Samples,
    sample_rate: int,
    manifest: CharacterManifest,
    speak: Callable[[Analysis, StageClock], Samples],
    stopwatch: StageClock | None,
    *,
    followed: float = HALF_WAY,
) -> Samples:
    """Analyse a recording, let an engine speak it, and finish the voice; see Engine.convert."""
    clock = stopwatch or NoClock()
    check_samples(samples, sample_rate, manifest)
    length = converted_length(len(samples), sample_rate, manifest.sample_rate)
    analysis = analyse(samples, sample_rate, clock)
    if not analysis.has_speech():
        return np.zeros(length, np.float32)
    voice = speak(analysis, clock)
    with clock.stage("post"):
        return finish(voice, manifest.sample_rate, length, analysis, followed=followed)
