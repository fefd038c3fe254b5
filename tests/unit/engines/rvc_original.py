"""The pipeline of the original tools: an oracle for the stages that the engine shares with it.

Up to rounding, its output equals that of RVC's releases of 2024 ("classic", unvoiced frames at
0 Hz) and of 2026 ("main", unvoiced frames filled in). It also has their faults: noise in silence,
clicks at cuts, and a result up to 20 ms shorter than the recording.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from shared.speech.engines.rvc_networks import RvcNetworks
from shared.speech.engines.rvc_signal import (
    HOP,
    SAMPLE_RATE,
    Contour,
    contour,
    divide_peak,
    fill_unvoiced,
    high_pass,
    loudness_gains,
    shift,
)

Array = NDArray[np.float32]
Array64 = NDArray[np.float64]

_LOUDEST = 0.99
_INT16 = 32_768


@dataclass(frozen=True)
class Lengths:
    """The lengths of the original pipeline in seconds; the defaults are its own on a CPU."""

    padding: int = 1
    spacing: int = 38
    search: int = 6
    longest: int = 41


@dataclass(frozen=True)
class _Piece:
    """A part of the padded recording, in samples: it is converted from `begin` to `end`.

    Attributes:
        begin: the first sample, a multiple of a frame.
        end: the sample after the last one.
        pitch_end: the frame after the last one whose pitch it is told.
    """

    begin: int
    end: int
    pitch_end: int


def convert_as_original(
    audio: NDArray[np.floating],
    voice: RvcNetworks,
    track: Callable[[Array], Array],
    semitones: float,
    random: Generator,
    *,
    lengths: Lengths | None = None,
) -> NDArray[np.int16]:
    """Convert a recording as the original tools do.

    Args:
        audio: mono audio at 16 kHz, [N].
        track: follows the fundamental frequency of audio at 16 kHz, float32 [M] -> Hz every 160
            samples, 0 where unvoiced, at least [M // 160]. Not asked if the synthesizer takes none.

    Returns:
        int16 at the voice's sample rate; up to 20 ms shorter than the recording.
    """
    lengths = lengths or Lengths()
    heard = high_pass(divide_peak(audio))
    around = lengths.padding * SAMPLE_RATE
    padded = np.pad(heard, around, mode="reflect").astype(np.float32)
    pitch = _contour(padded, voice, track, semitones)
    trimmed = lengths.padding * voice.synthesizer.sample_rate
    spoken = []
    for piece in _pieces(heard, len(padded), lengths):
        told = pitch and pitch.cut(piece.begin // HOP, piece.pitch_end)
        audio_piece = voice.speak(padded[piece.begin : piece.end], told, random)
        spoken.append(audio_piece[trimmed:-trimmed])
    return _to_int16(_mix_loudness(np.concatenate(spoken), heard, voice))


def _contour(
    padded: Array, voice: RvcNetworks, track: Callable[[Array], Array], semitones: float
) -> Contour | None:
    if voice.synthesizer.harmonics == 0:
        return None
    hertz = track(padded)[: len(padded) // HOP]
    filled = fill_unvoiced(hertz) if voice.options.unvoiced == "fill" else hertz
    return contour(shift(filled, semitones))


def _pieces(heard: Array64, padded_length: int, lengths: Lengths) -> Iterator[_Piece]:
    around = 2 * lengths.padding * SAMPLE_RATE
    begin = 0
    for cut in _cuts(heard, lengths):
        yield _Piece(begin, cut + around + HOP, (cut + around) // HOP)
        begin = cut
    yield _Piece(begin, padded_length, padded_length // HOP)


def _cuts(heard: Array64, lengths: Lengths) -> Iterator[int]:
    """Yield where a long recording is cut: the quietest frames, at the end of a whole frame."""
    if len(heard) + HOP <= lengths.longest * SAMPLE_RATE:
        return
    loudness = _loudness(heard)
    spacing, reach = lengths.spacing * SAMPLE_RATE, lengths.search * SAMPLE_RATE
    for place in range(spacing, len(heard), spacing):
        quietest = place - reach + int(np.argmin(loudness[place - reach : place + reach]))
        yield quietest // HOP * HOP


def _loudness(heard: Array64) -> Array64:
    """Sum the magnitudes of the 160 samples around each sample."""
    padded = np.abs(np.pad(heard, HOP // 2, mode="reflect"))
    windows = np.lib.stride_tricks.sliding_window_view(padded, HOP)[: len(heard)]
    loudness: Array64 = windows.sum(axis=1)
    return loudness


def _mix_loudness(spoken: Array, heard: Array64, voice: RvcNetworks) -> Array:
    mix = voice.options.loudness_mix
    if mix == 1:
        return spoken
    rate = voice.synthesizer.sample_rate
    return spoken * loudness_gains(heard, SAMPLE_RATE, spoken, rate, mix)


def _to_int16(spoken: Array) -> NDArray[np.int16]:
    peak = float(np.abs(spoken).max(initial=0.0)) / _LOUDEST
    return (spoken * np.float32(_INT16 / max(peak, 1.0))).astype(np.int16)
