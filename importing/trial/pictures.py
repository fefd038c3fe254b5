"""Spectrograms of sounds, one under another, as a PNG file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from speech.signal.samples import resample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from speech.signal.arrays import Samples

RATE = 16_000
"""Nothing above half of it is shown: 8 kHz."""

_WINDOW = 512
_HOPS_PER_SECOND = 200
_DEPTH_DB = 70.0
_TITLE_PIXELS = 16
_WHITE, _BLACK = 255, 0


def draw_spectrograms(file: Path, sounds: Mapping[str, tuple[Samples, int]]) -> None:
    """Draw a spectrogram of each sound, from 0 at the bottom to 8 kHz, 200 columns a second.

    Args:
        file: to write.
        sounds: samples and their rate in Hz, by what is written above them; none is empty.
    """
    panels = {
        title: spectrogram(resample(samples, rate, RATE))
        for title, (samples, rate) in sounds.items()
    }
    width = max(panel.shape[1] for panel in panels.values())
    height = sum(len(panel) + _TITLE_PIXELS for panel in panels.values())
    picture = Image.new("L", (width, height), _WHITE)
    writing = ImageDraw.Draw(picture)
    top = 0
    for title, panel in panels.items():
        writing.text((2, top + 2), title, fill=_BLACK)
        picture.paste(Image.fromarray(panel), (0, top + _TITLE_PIXELS))
        top += _TITLE_PIXELS + len(panel)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.save(file, "PNG")


def spectrogram(samples: Samples) -> NDArray[np.uint8]:
    """Return the pixels of a spectrogram of samples at 16 kHz, [frequencies, times].

    The highest frequency comes first; the loudest is black, and what is 70 dB below it white.
    """
    padded = np.pad(samples, _WINDOW // 2)
    hop = RATE // _HOPS_PER_SECOND
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop]
    spectra = np.abs(np.fft.rfft(frames * np.hanning(_WINDOW)))
    decibels = 20 * np.log10(spectra / max(float(spectra.max()), 1e-9) + 1e-9)
    ink = np.clip(1 + decibels / _DEPTH_DB, 0, 1)
    pixels: NDArray[np.uint8] = np.rint(_WHITE * (1 - ink)).astype(np.uint8)
    return np.ascontiguousarray(pixels.T[::-1])
