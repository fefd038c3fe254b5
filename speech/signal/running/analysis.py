"""Analysis of a recording that goes on: the stages of `speech.signal.whole.analysis`."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.gate import find_speech
from speech.signal.levels import SpeechLevels, frame_power, levels_of
from speech.signal.pitch.candidates import (
    CANDIDATES,
    STEADY_BINS,
    Candidates,
    find_candidates,
    magnitude_spectra,
    steady_hum,
)
from speech.signal.pitch.f0 import HOP, SAMPLE_RATE, F0Track, describe_speaker, follow
from speech.signal.pitch.shifting import SpokenPitch, measure_pitch
from speech.signal.running.history import History
from speech.signal.running.incoming import open_resampler
from speech.signal.samples import remove_rumble

LAG = 3
"""Frames at the end of what came in that are not analysed yet: the filter against rumble needs
20 ms, and the window of the pitch another 20."""
WAVE_FRAMES = 160
"""How many frames of the wave are kept."""

_REMEMBERED = 3_000  # frames that level, floor and register are measured on: 30 s
_SPECTRA_EVERY = 4  # frames of which one tells what hums all the time
_QUIET_SHARE = 0.12  # more than of a whole recording, because little of it came at first
_WINDOW = 100  # frames that the path of the pitch is chosen in
_RUMBLE = 2  # frames that the filter against rumble needs on either side
_MARGIN = 4  # frames in which the resampler of the pitch tracker begins
_REGISTER_SLEW = 0.0018  # of the logarithm per frame: a quarter of an octave in a second


@dataclass(frozen=True)
class Heard:
    """What is known of the last second of a recording, a frame every 10 ms.

    Attributes:
        begin: the number of the first frame in the recording.
        track: the frames' fundamental frequency.
        levels: the frames' levels; speech and floor are those of all that came so far.
        speech: the frames in which somebody speaks.
        pitch: how high the speaker speaks, as far as is known.
    """

    begin: int
    track: F0Track
    levels: SpeechLevels
    speech: NDArray[np.bool_]
    pitch: SpokenPitch | None


class RunningAnalysis:
    """Analyses a recording as it comes in.

    Args:
        sample_rate: of the recording, in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        self._resampler = open_resampler(sample_rate)
        self._raw = History(WAVE_FRAMES * HOP)
        self._wave = History(WAVE_FRAMES * HOP)
        self._tail = np.zeros(0, np.float32)
        self._octaves = History(_REMEMBERED, (CANDIDATES,))
        self._strengths = History(_REMEMBERED, (CANDIDATES,))
        self._magnitudes = History(_REMEMBERED)
        self._power = History(_REMEMBERED)
        self._spectra = History(_REMEMBERED // _SPECTRA_EVERY, (STEADY_BINS,))
        self._decided = History(_REMEMBERED)
        self._hertz = np.zeros(0, np.float32)
        self._pitch: SpokenPitch | None = None

    @property
    def frames(self) -> int:
        """How many whole frames have come in."""
        return self._raw.count // HOP

    @property
    def delay(self) -> int:
        """How many samples of the recording must follow a frame, at least, before it counts."""
        return self._resampler.delay

    def push(self, samples: Samples) -> None:
        """Take the next samples, at most a second of them."""
        self._raw.append(self._resampler.push(samples))

    def end(self) -> None:
        """Take the end of the recording; only silence may follow."""
        self._raw.append(self._resampler.finish())

    def push_silence(self, frames: int) -> None:
        """Take so many silent frames after the end."""
        self._raw.append(np.zeros(frames * HOP, np.float32))

    def hear(self, frames: int) -> Heard:
        """Analyse up to so many frames, all of which have come in, less the LAG."""
        new = frames - LAG - self._power.count
        self._remove_rumble(frames)
        self._analyse(new)
        candidates = self._candidates(_REMEMBERED)
        track = follow(self._candidates(_WINDOW), describe_speaker(candidates))
        levels = levels_of(self._power.last(_REMEMBERED))
        recent = replace(levels, frames=levels.frames[-_WINDOW:])
        begin = self._power.count - len(track.hertz)
        self._measure_pitch(track, begin, new)
        return Heard(begin, track, recent, find_speech(recent, track.hertz > 0), self._pitch)

    def wave(self, begin: int, end: int) -> Samples:
        """Return the wave between two samples at 16 kHz, as far as `hear` went; 0 before it began.

        The last 20 ms are provisional: what comes next changes what the filter removes from them.
        """
        certain = self._wave.between(begin, min(end, self._wave.count))
        return np.concatenate([certain, self._tail[: max(end - self._wave.count, 0)]])

    def _remove_rumble(self, frames: int) -> None:
        known = self._wave.count
        first = max(known - _RUMBLE * HOP, 0)
        filtered = remove_rumble(self._raw.between(first, frames * HOP), SAMPLE_RATE)
        self._wave.append(filtered[known - first : -_RUMBLE * HOP])
        self._tail = filtered[-_RUMBLE * HOP :]

    def _analyse(self, new: int) -> None:
        """Find the candidates and the power of the next frames."""
        known = self._power.count
        before = min(_MARGIN, known)
        wave = self._wave.between((known - before) * HOP, (known + new + 1) * HOP)
        magnitudes = magnitude_spectra(wave, before + new)
        self._spectra.append(magnitudes[before::_SPECTRA_EVERY, :STEADY_BINS])
        hum = steady_hum(self._spectra.last(_REMEMBERED), _QUIET_SHARE)
        found = find_candidates(magnitudes, hum)
        self._octaves.append(found.octaves[before:])
        self._strengths.append(found.strengths[before:])
        self._magnitudes.append(found.levels[before:])
        self._power.append(frame_power(wave, HOP, before + new)[before:])

    def _candidates(self, frames: int) -> Candidates:
        return Candidates(
            self._octaves.last(frames), self._strengths.last(frames), self._magnitudes.last(frames)
        )

    def _measure_pitch(self, track: F0Track, begin: int, new: int) -> None:
        """Measure how high the speaker speaks; what is known changes slowly."""
        # What has left the window is decided.
        self._decided.append(self._hertz[: begin - self._decided.count])
        self._hertz = track.hertz
        known = np.concatenate([self._decided.last(_REMEMBERED), track.hertz])
        measured = measure_pitch(np.log(known[known > 0].astype(np.float64)))
        if measured is not None and self._pitch is not None:
            most = new * _REGISTER_SLEW
            change = float(np.clip(measured.median - self._pitch.median, -most, most))
            measured = replace(measured, median=self._pitch.median + change)
        self._pitch = measured
