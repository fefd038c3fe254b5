"""Analysis and loudness of a recording that is still coming in, in bounded memory."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

from shared.speech.signal.analysis import SILENT_DB, find_speech, gate_gains
from shared.speech.signal.loudness import (
    CEILING,
    apply_gains,
    blocks_around,
    decibels_to_gain,
    limiting_block,
    limiting_gains,
    loudness_course,
    needed_gains,
    wanted_gain_db,
)
from shared.speech.signal.pitch import (
    CANDIDATES,
    HOP,
    SAMPLE_RATE,
    STEADY_BINS,
    Candidates,
    F0Track,
    describe_speaker,
    find_candidates,
    follow,
    magnitude_spectra,
    steady_hum,
)
from shared.speech.signal.pitch_shift import SpokenPitch, measure_pitch
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    RESAMPLING_QUALITY,
    SpeechLevels,
    frame_power,
    levels_of,
    remove_rumble,
    speech_level,
)
from shared.speech.signal.sound import Samples


class History:
    """Keeps at least the last `capacity` values of a series of float32."""

    def __init__(self, capacity: int, shape: tuple[int, ...] = ()) -> None:
        self._capacity = capacity
        self._kept = np.zeros((2 * capacity, *shape), np.float32)
        self._used = 0
        self.count = 0
        """The number of values that were appended so far."""

    def append(self, values: NDArray[np.floating]) -> None:
        if self._used + len(values) > len(self._kept):
            self._kept[: self._capacity] = self._kept[self._used - self._capacity : self._used]
            self._used = self._capacity
        self._kept[self._used : self._used + len(values)] = values
        self._used += len(values)
        self.count += len(values)

    def last(self, count: int) -> Samples:
        """Return the last `count` values, or as many as there are; valid until the next append."""
        return self._kept[self._used - min(count, self._used, self._capacity) : self._used]

    def between(self, begin: int, end: int) -> Samples:
        """Return a copy of values by their numbers in the series; those before the first are 0."""
        values = np.zeros((end - begin, *self._kept.shape[1:]), np.float32)
        first = max(begin, 0)
        offset = self._used - self.count
        values[first - begin :] = self._kept[first + offset : end + offset]
        return values


_GROUP = 80  # samples that are computed at once: 5 ms
_CROSSINGS = 30  # zero crossings of the filter's sinc on either side
_KAISER_BETA = 8.0  # 80 dB of attenuation
_CUTOFF = 0.95  # of half the new rate


class Resampler(Protocol):
    @property
    def delay(self) -> int:
        """The samples that must follow one, at least, before it is returned."""

    def push(self, samples: Samples) -> Samples:
        """Take the next samples and return those at the new rate that are certain."""

    def finish(self) -> Samples: ...


def open_resampler(sample_rate: int) -> Resampler:
    """Open a resampler from `sample_rate`, in Hz, to that of the analysis."""
    factor, rest = divmod(sample_rate, SAMPLE_RATE)
    # SoX's resampler gives what it has every 33 ms, which a visitor would hear as delay. Browsers
    # record at 48 kHz.
    return SoxResampler(sample_rate) if rest or not factor else Decimator(factor)


class Decimator:
    """Divides the sample rate by a whole number, with a windowed sinc.

    Source: Oppenheim and Schafer, Discrete-Time Signal Processing, chapters 4 and 7 (Kaiser
    window).
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
        self._taken += len(samples)
        return self._take(samples)

    def finish(self) -> Samples:
        missing = -(-self._taken // self._factor) - self._given
        return self._take(np.zeros(self.delay + self._step, np.float32))[:missing]

    def _take(self, samples: Samples) -> Samples:
        waiting = np.concatenate([self._waiting, samples])
        groups = max(len(waiting) - 2 * self.delay, 0) // self._step
        end = groups * self._step
        # Groups of one size, so that every cut of the recording gives the same samples.
        width = self._rows.shape[1]
        given = [
            waiting[begin : begin + _GROUP]
            if self._factor == 1
            else self._rows @ waiting[begin : begin + width]
            for begin in range(0, end, self._step)
        ]
        self._waiting = waiting[end:]
        self._given += groups * _GROUP
        return np.concatenate(given) if given else np.zeros(0, np.float32)


class SoxResampler:
    delay = 0

    def __init__(self, sample_rate: int) -> None:
        self._stream = soxr.ResampleStream(
            sample_rate, SAMPLE_RATE, 1, dtype="float32", quality=RESAMPLING_QUALITY
        )

    def push(self, samples: Samples) -> Samples:
        resampled: Samples = self._stream.resample_chunk(samples)
        return resampled

    def finish(self) -> Samples:
        resampled: Samples = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return resampled


LAG = 3
"""Frames at the end of what came in that are not analysed yet: the filter against rumble needs
20 ms, and the window of the pitch another 20."""

WAVE_FRAMES = 160  # of the wave in memory

_REMEMBERED = 3_000  # frames that level, floor and register are measured on: 30 s
_SPECTRA_EVERY = 4  # frames of which one tells what hums all the time
_QUIET_SHARE = 0.12  # more than of a whole recording, because little of it came at first
_WINDOW = 100  # frames that the path of the pitch is chosen in
_RUMBLE = 2  # frames that the filter against rumble needs on either side
_MARGIN = 4  # frames in which the resampler of the pitch tracker begins
_REGISTER_SLEW = 0.0018  # of the logarithm per frame: a quarter of an octave in a second


@dataclass(frozen=True)
class RecentSpeech:
    """The last second of a recording; speech and floor of its levels are those of all so far."""

    begin: int
    track: F0Track
    levels: SpeechLevels
    speech: NDArray[np.bool_]
    pitch: SpokenPitch | None


class StreamAnalysis:
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
        return self._raw.count // HOP

    @property
    def delay(self) -> int:
        """The samples of the recording that must follow a frame, at least, before it counts."""
        return self._resampler.delay

    def push(self, samples: Samples) -> None:
        self._raw.append(self._resampler.push(samples))

    def end(self) -> None:
        self._raw.append(self._resampler.finish())

    def push_silence(self, frames: int) -> None:
        self._raw.append(np.zeros(frames * HOP, np.float32))

    def hear(self, frames: int) -> RecentSpeech:
        """Analyse up to so many frames, all of which have come in, less the LAG."""
        new = frames - LAG - self._power.count
        known = self._wave.count
        first = max(known - _RUMBLE * HOP, 0)
        filtered = remove_rumble(self._raw.between(first, frames * HOP), SAMPLE_RATE)
        self._wave.append(filtered[known - first : -_RUMBLE * HOP])
        self._tail = filtered[-_RUMBLE * HOP :]
        self._analyse(new)
        candidates = self._candidates(_REMEMBERED)
        track = follow(self._candidates(_WINDOW), *describe_speaker(candidates))
        levels = levels_of(self._power.last(_REMEMBERED))
        recent = replace(levels, frames=levels.frames[-_WINDOW:])
        begin = self._power.count - len(track.hertz)
        self._measure_pitch(track, begin, new)
        return RecentSpeech(begin, track, recent, find_speech(recent, track.hertz > 0), self._pitch)

    def wave(self, begin: int, end: int) -> Samples:
        """Return the wave at 16 kHz up to `hear`, 0 before it began; the last 20 ms may change."""
        certain = self._wave.between(begin, min(end, self._wave.count))
        return np.concatenate([certain, self._tail[: max(end - self._wave.count, 0)]])

    def _analyse(self, new: int) -> None:
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


_FOLLOWED = 60  # frames over which the recording's loudness is followed
_FIRST_GAIN_DB = 10.0  # before anything is known of the voice's level
_GAIN_SLEW_DB = 0.4  # per frame
_REACH_BLOCKS = 3  # milliseconds before and after a peak in which the limiter's gain changes


class StreamFinish:
    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._hop = sample_rate // 100
        self._power = History(_REMEMBERED)
        self._last_hop = np.zeros(self._hop, np.float32)
        self._raised = _FIRST_GAIN_DB
        self._gain = np.float32(1.0)
        self._gate = np.float32(0.0)
        self._limiter = StreamLimiter(sample_rate)

    def push(self, voice: Samples, first: int, heard: RecentSpeech) -> Samples:
        """Finish the next whole frames of a voice; some milliseconds are held back."""
        frames = len(voice) // self._hop
        at = first - heard.begin
        gate = gate_gains(heard.levels, heard.speech)[at + 1 : at + frames + 1]
        gated = apply_gains(voice, np.concatenate([[self._gate], gate]), self._hop)
        self._gate = gate[-1]
        joined = np.concatenate([self._last_hop, gated])
        self._power.append(frame_power(joined, self._hop, frames + 1)[1:])
        self._last_hop = gated[-self._hop :]
        gains = self._gains(heard, first + frames, frames)
        loud = apply_gains(gated, np.concatenate([[self._gain], gains]), self._hop)
        self._gain = gains[-1]
        return self._limiter.push(loud)

    def _gains(self, heard: RecentSpeech, end: int, frames: int) -> Samples:
        power = self._power.last(_FOLLOWED)
        speech = speech_level(self._power.last(_REMEMBERED))
        recent = heard.levels.frames[: end - heard.begin][-len(power) :]
        levels = SpeechLevels(recent, heard.levels.speech, heard.levels.floor)
        power = power[-len(recent) :]
        if speech < SILENT_DB:
            return np.full(frames, self._gain, np.float32)
        # The beginning of a word is quiet: too loud is mended at once, too quiet slowly.
        most = self._raised + frames * _GAIN_SLEW_DB
        self._raised = min(wanted_gain_db(levels.speech, speech), most)
        return decibels_to_gain(self._raised + loudness_course(power, speech, levels)[-frames:])


class StreamLimiter:
    """Keeps a continuing voice within the ceiling; see loudness.limit."""

    def __init__(self, sample_rate: int) -> None:
        self._block = limiting_block(sample_rate)
        self._around = blocks_around(_REACH_BLOCKS)
        self._before = np.ones(self._around, np.float32)
        self._waiting = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; hold 8 ms back, because the gain falls before a peak."""
        self._waiting = np.concatenate([self._waiting, samples])
        blocks = len(self._waiting) // self._block
        # The gain is interpolated up to the block after the last one.
        ready = blocks - self._around - 1
        if ready <= 0:
            return self._waiting[:0]
        needed = needed_gains(self._waiting[: blocks * self._block], self._block)
        needed = np.concatenate([self._before, needed])
        gains = limiting_gains(needed, _REACH_BLOCKS)
        limited = apply_gains(self._waiting[: ready * self._block], gains, self._block)
        self._before = needed[ready : ready + self._around]
        self._waiting = self._waiting[ready * self._block :]
        return np.clip(limited, -CEILING, CEILING)


PAUSE_FRAMES = 80
"""So many quiet frames are a pause; after fewer, an engine may take it for a part of a word."""

_QUIET = 0.01  # by which the power of a quiet frame is below that of the loudest: 20 dB
_FAINTEST = 1e-6  # the power of what is never speech, -60 dBFS


class Pauses:
    def __init__(self, sample_rate: int) -> None:
        self._hop = sample_rate // FRAMES_PER_SECOND
        self._rest = np.zeros(0, np.float32)
        self._loudest = _FAINTEST
        self._quiet_frames = 0
        self._has_spoken = False

    def push(self, samples: Samples) -> bool:
        """Take the next samples, float32 [N]; whether a pause has begun that was not reported."""
        waiting = np.concatenate([self._rest, samples])
        whole = len(waiting) // self._hop * self._hop
        self._rest = waiting[whole:]
        frames = waiting[:whole].reshape(-1, self._hop)
        for power in map(float, np.einsum("ts,ts->t", frames, frames) / self._hop):
            if power > self._loudest * _QUIET:
                # Before the first word even a breath is the loudest.
                self._has_spoken |= power > _FAINTEST
                self._quiet_frames = 0
            else:
                self._quiet_frames += 1
            self._loudest = max(self._loudest, power)
        is_pause = self._has_spoken and self._quiet_frames >= PAUSE_FRAMES
        if is_pause:
            self._has_spoken = False
        return is_pause
