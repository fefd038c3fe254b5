"""Brings a recording that goes on to the sample rate of the analysis, with little delay."""

from typing import Protocol

import numpy as np
import soxr

from speech.signal.arrays import Samples
from speech.signal.pitch.f0 import SAMPLE_RATE
from speech.signal.samples import RESAMPLING_QUALITY

_GROUP = 80  # samples that are computed at once: 5 ms
_CROSSINGS = 30  # zero crossings of the filter's sinc on either side
_KAISER_BETA = 8.0  # 80 dB of attenuation
_CUTOFF = 0.95  # of half the new rate


class Resampler(Protocol):
    """Takes a recording piece by piece."""

    @property
    def delay(self) -> int:
        """How many samples must follow one, at least, before it is given."""
        ...

    def push(self, samples: Samples) -> Samples:
        """Take the next samples and return those at the new rate that are certain."""
        ...

    def finish(self) -> Samples:
        """Take the end and return the rest."""
        ...


def open_resampler(sample_rate: int) -> Resampler:
    """Open what brings a recording from `sample_rate`, in Hz, to that of the analysis."""
    factor, rest = divmod(sample_rate, SAMPLE_RATE)
    # SoX's resampler gives what it has every 33 ms, which a visitor would hear as delay. Browsers
    # record at 48 kHz.
    return SoxResampler(sample_rate) if rest or not factor else Decimator(factor)


class Decimator:
    """Divides the sample rate by a whole number, with a windowed sinc.

    Source: Oppenheim and Schafer, Discrete-Time Signal Processing, chapters 4 (decimation) and 7
    (Kaiser window).

    Args:
        factor: the divisor; 1 changes nothing.
    """

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self.delay = 0 if factor == 1 else _CROSSINGS * factor
        at = np.arange(-self.delay, self.delay + 1)
        sinc = np.sinc(at * _CUTOFF / factor) * np.kaiser(len(at), _KAISER_BETA)
        self._step = _GROUP * factor
        # A row computes one sample of a group.
        self._rows = np.zeros((_GROUP, self._step + 2 * self.delay), np.float32)
        for number, row in enumerate(self._rows):
            row[number * factor :][: len(sinc)] = sinc / sinc.sum()
        self._waiting = np.zeros(self.delay, np.float32)
        self._taken = 0
        self._given = 0

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; see Resampler."""
        self._taken += len(samples)
        return self._take(samples)

    def finish(self) -> Samples:
        """Take the end; see Resampler."""
        missing = -(-self._taken // self._factor) - self._given
        return self._take(np.zeros(self.delay + self._step, np.float32))[:missing]

    def _take(self, samples: Samples) -> Samples:
        waiting = np.concatenate([self._waiting, samples])
        groups = max(len(waiting) - 2 * self.delay, 0) // self._step
        end = groups * self._step
        # Groups of one size, so that every cut of the recording gives the same samples.
        given = [self._group(waiting[begin:]) for begin in range(0, end, self._step)]
        self._waiting = waiting[end:]
        self._given += groups * _GROUP
        return np.concatenate(given) if given else np.zeros(0, np.float32)

    def _group(self, samples: Samples) -> Samples:
        if self._factor == 1:
            return samples[:_GROUP]
        filtered: Samples = self._rows @ samples[: self._rows.shape[1]]
        return filtered


class SoxResampler:
    """SoX's resampler, for any rate.

    Args:
        sample_rate: of the recording, in Hz.
    """

    delay = 0

    def __init__(self, sample_rate: int) -> None:
        self._stream = soxr.ResampleStream(
            sample_rate, SAMPLE_RATE, 1, dtype="float32", quality=RESAMPLING_QUALITY
        )

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; see Resampler."""
        resampled: Samples = self._stream.resample_chunk(samples)
        return resampled

    def finish(self) -> Samples:
        """Take the end; see Resampler."""
        resampled: Samples = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return resampled
