"""Loudness, silence and ceiling of a voice that goes on: the stages of `finishing`, continued."""

import numpy as np

from speech.signal.arrays import Samples
from speech.signal.gate import SILENT_DB, gate_gains
from speech.signal.levels import SpeechLevels, frame_power, speech_level
from speech.signal.loudness import (
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
from speech.signal.running.analysis import Heard
from speech.signal.running.history import History

_REMEMBERED = 3_000  # frames that the voice's level is measured on: 30 s
_FOLLOWED = 60  # frames over which the recording's loudness is followed
_FIRST_GAIN_DB = 10.0  # before anything is known of the voice's level
_GAIN_SLEW_DB = 0.4  # per frame
_REACH_BLOCKS = 3  # milliseconds before and after a peak in which the limiter's gain changes


class RunningFinish:
    """Gives a voice the recording's silence and loudness, frame by frame.

    Args:
        sample_rate: of the voice, a multiple of 100 Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._hop = sample_rate // 100
        self._power = History(_REMEMBERED)
        self._last_hop = np.zeros(self._hop, np.float32)
        self._raised = _FIRST_GAIN_DB
        self._gain = np.float32(1.0)
        self._gate = np.float32(0.0)
        self._limiter = RunningLimiter(sample_rate)

    def push(self, voice: Samples, first: int, heard: Heard) -> Samples:
        """Finish the next frames.

        Args:
            voice: the character's speech from frame `first` on, in whole frames.
            first: a frame of the recording.
            heard: what is known of the recording; it goes beyond the voice.

        Returns:
            Samples; some milliseconds are held back.
        """
        frames = len(voice) // self._hop
        at = first - heard.begin
        gate = gate_gains(heard.levels, heard.speech)[at + 1 : at + frames + 1]
        gated = self._apply(voice, self._gate, gate)
        self._gate = gate[-1]
        self._measure(gated, frames)
        gains = self._gains(heard, first + frames, frames)
        loud = self._apply(gated, self._gain, gains)
        self._gain = gains[-1]
        return self._limiter.push(loud)

    def _apply(self, samples: Samples, before: np.float32, gains: Samples) -> Samples:
        """Multiply by gains at the end of each frame, going on from the last one `before`."""
        return apply_gains(samples, np.concatenate([[before], gains]), self._hop)

    def _measure(self, gated: Samples, frames: int) -> None:
        joined = np.concatenate([self._last_hop, gated])
        self._power.append(frame_power(joined, self._hop, frames + 1)[1:])
        self._last_hop = gated[-self._hop :]

    def _gains(self, heard: Heard, end: int, frames: int) -> Samples:
        """Compute the gains of the last frames before `end`."""
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


class RunningLimiter:
    """Keeps a voice that goes on within the ceiling; see loudness.limit.

    Args:
        sample_rate: of the voice, in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        self._block = limiting_block(sample_rate)
        self._around = blocks_around(_REACH_BLOCKS)
        self._before = np.ones(self._around, np.float32)
        self._waiting = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> Samples:
        """Take the next samples, and return those that what follows does not change any more.

        The last 8 ms are held back, because the gain falls before a peak.
        """
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
