"""The pipeline of the original tools: an oracle for the stages that the engine shares with it.

Up to rounding, its output equals that of RVC's releases of 2024 ("classic", unvoiced frames at
0 Hz) and of 2026 ("main", unvoiced frames filled in), for recordings that they convert in one
piece: up to 41 s. It also has their faults: noise in silence, and a result up to 20 ms shorter.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from shared.speech.engines.rvc_networks import RvcNetworks
from shared.speech.engines.rvc_signal import (
    HOP,
    SAMPLE_RATE,
    contour,
    divide_peak,
    fill_unvoiced,
    high_pass,
    loudness_gains,
    shift,
)

Array = NDArray[np.float32]

_LOUDEST = 0.99
_INT16 = 32_768


def convert_as_original(
    audio: NDArray[np.floating],
    voice: RvcNetworks,
    track: Callable[[Array], Array],
    semitones: float,
    random: Generator,
) -> NDArray[np.int16]:
    """Convert a recording at 16 kHz, [N], as the original tools do, to the voice's sample rate.

    `track` follows the fundamental frequency, in Hz every 160 samples, 0 where unvoiced; it is not
    asked if the synthesizer takes none.
    """
    heard = high_pass(divide_peak(audio))
    padded = np.pad(heard, SAMPLE_RATE, mode="reflect").astype(np.float32)
    told = None
    if voice.synthesizer.harmonics:
        hertz = track(padded)[: len(padded) // HOP]
        filled = fill_unvoiced(hertz) if voice.options.unvoiced == "fill" else hertz
        told = contour(shift(filled, semitones))
    rate = voice.synthesizer.sample_rate
    spoken = voice.speak(padded, told, random)[rate:-rate]
    mix = voice.options.loudness_mix
    if mix != 1:
        spoken = spoken * loudness_gains(heard, SAMPLE_RATE, spoken, rate, mix)
    peak = float(np.abs(spoken).max(initial=0.0)) / _LOUDEST
    return (spoken * np.float32(_INT16 / max(peak, 1.0))).astype(np.int16)
