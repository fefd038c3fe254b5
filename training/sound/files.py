"""Reads files of speech."""

from pathlib import Path

import numpy as np
import soundfile

from speech.signal.samples import resample
from training.sound.features import RATE, Floats


def read_mono(file: Path) -> tuple[Floats, int]:
    """Return the mean of a file's channels, float32 [N], and its sample rate."""
    wave, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return np.asarray(wave.mean(1), np.float32), rate


def read_speech(file: Path) -> Floats:
    """Return the same at 16 kHz."""
    wave, rate = read_mono(file)
    return np.asarray(resample(wave, rate, RATE), np.float32)
