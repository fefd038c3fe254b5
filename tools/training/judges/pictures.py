"""Spectrograms of a recording, its conversion, and the target saying the same."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from tools.training.decoder.features import RATE, Floats

mpl.use("Agg")
import matplotlib.pyplot as plt


def spectrograms(file: Path, waves: dict[str, Floats]) -> None:
    figure, axes = plt.subplots(len(waves), 1, figsize=(11, 2.6 * len(waves)), sharex=True)
    for axis, (title, wave) in zip(np.atleast_1d(axes), waves.items(), strict=True):
        top = 10 * np.log10(np.square(np.abs(np.fft.rfft(wave[:RATE]))).max() / RATE + 1e-9) - 30
        # Where nothing is heard, the picture needs something to take a logarithm of.
        audible = wave + 1e-7 * np.random.default_rng(0).standard_normal(len(wave))
        axis.specgram(audible, NFFT=512, Fs=RATE, noverlap=432, vmin=top - 70, vmax=top)
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_ylabel("Hz")
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=60)
    plt.close(figure)
