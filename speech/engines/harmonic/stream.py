"""Conversion while somebody speaks, in steps of some frames; see `Stream`."""

import numpy as np

from shared.characters.manifest import Pitch
from speech.engines.harmonic.voices import LOOKAHEAD, LOOKBACK, RunningVoice, Step
from speech.signal.arrays import Samples
from speech.signal.levels import hold_edges
from speech.signal.loudness import fade_out
from speech.signal.noise import Noise
from speech.signal.pitch.shifting import move_pitch
from speech.signal.running.analysis import Heard, RunningAnalysis
from speech.signal.running.finishing import RunningFinish
from speech.signal.running.history import History
from speech.signal.samples import check_audio, converted_length

_BLOCKS_PER_SECOND = 100
_MOST_BLOCKS = 10  # that are analysed at once
_AHEAD = LOOKAHEAD + 1  # frames that must have come in after those that are spoken


class VoiceStream:
    """Converts speech while somebody speaks; see Stream.

    It speaks in steps of a few frames, so that how the recording is cut makes no difference.

    Args:
        voice: speaks the frames; of this stream alone.
        sample_rate: of the recording, in Hz.
        spoken_rate: of the voice, a multiple of 100 Hz.
        pitch: the character's.
        semitones: by how much to move the pitch, or None for the character's own policy.
        noise: of the voice.
    """

    def __init__(
        self,
        voice: RunningVoice,
        *,
        sample_rate: int,
        spoken_rate: int,
        pitch: Pitch,
        semitones: float | None,
        noise: Noise,
    ) -> None:
        self._voice = voice
        self._rates = sample_rate, spoken_rate
        self._hop = spoken_rate // 100
        self._pitch = pitch
        self._semitones = semitones
        self._noise = noise
        self._analysis = RunningAnalysis(sample_rate)
        self._finish = RunningFinish(spoken_rate)
        self._block = sample_rate // _BLOCKS_PER_SECOND
        self._f0 = History(LOOKBACK + 1)
        self._voicing = History(LOOKBACK + 1)
        self._taken = 0
        self._given = 0
        self._spoken = 0

    @property
    def wanted(self) -> int:
        """How many samples more it needs before it gives any; see Stream."""
        frames = self._spoken + self._voice.frames + _AHEAD
        return max(frames * self._block + self._analysis.delay - self._taken, 1)

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; see Stream."""
        check_audio(samples)
        self._taken += len(samples)
        heard = []
        part = _MOST_BLOCKS * self._block
        for begin in range(0, len(samples), part):
            self._analysis.push(samples[begin : begin + part])
            heard += self._steps()
        return self._give(heard)

    def finish(self) -> Samples:
        """Take the end; see Stream."""
        missing = converted_length(self._taken, *self._rates) - self._given
        self._analysis.end()
        heard = self._steps()
        while sum(map(len, heard)) < missing:
            self._analysis.push_silence(self._voice.frames)
            heard += self._steps()
        return fade_out(self._give(heard)[:missing], self._rates[1])

    def _give(self, pieces: list[Samples]) -> Samples:
        given = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
        self._given += len(given)
        return given

    def _steps(self) -> list[Samples]:
        """Speak what has come in."""
        heard = []
        while self._analysis.frames >= self._spoken + self._voice.frames + _AHEAD:
            heard.append(self._speak(self._spoken + self._voice.frames))
        return heard

    def _speak(self, end: int) -> Samples:
        """Speak the frames up to `end`."""
        heard = self._analysis.hear(end + _AHEAD)
        f0, voicing = self._plan(heard, end)
        step = Step(end, self._analysis.wave, f0, voicing, self._noise)
        voice = self._voice.speak(step)
        first = self._spoken - 1
        self._spoken = end
        if first < 0:
            voice, first = voice[self._hop :], 0
        return self._finish.push(voice, first, heard)

    def _plan(self, heard: Heard, end: int) -> tuple[Samples, Samples]:
        """Plan the pitch; what was decided before stays, what is not known yet is held."""
        contour = move_pitch(heard.track, heard.pitch, self._pitch, self._semitones)
        if self._f0.count == 0:
            self._f0.append(np.full(LOOKBACK, contour[0], np.float32))
            self._voicing.append(np.zeros(LOOKBACK, np.float32))
        decided = self._f0.count - LOOKBACK
        now, ahead = slice(decided - heard.begin, end + 1 - heard.begin), end + 1 - heard.begin
        self._f0.append(contour[now])
        self._voicing.append(heard.track.voicing[now])
        unknown = LOOKAHEAD - 1 - len(contour[ahead:])
        return (
            np.concatenate([self._f0.last(LOOKBACK + 1), hold_edges(contour[ahead:], 0, unknown)]),
            np.concatenate(
                [
                    self._voicing.last(LOOKBACK + 1),
                    hold_edges(heard.track.voicing[ahead:], 0, unknown),
                ]
            ),
        )
