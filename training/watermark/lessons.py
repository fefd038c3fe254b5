"""Speech that is marked with keys drawn at random, and what happens to it on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.signal

from speech.results.watermark.decisions import CHIP_FRAMES, features, powers
from speech.results.watermark.embedding import Watermark
from speech.results.watermark.pattern import PERIOD, SHORTEST_KEY, WatermarkKey
from training.sound import augment
from training.sound.features import HOP, RATE, Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

CHIPS = 95
_FARTHEST = HOP // 2
_SECONDS = 4.0


class Lessons(NamedTuple):
    """What was heard, and how it was marked.

    Attributes:
        heard: features, float32 [N, CHIPS CHIP_FRAMES, BANDS, 2].
        signs: -1 or 1, int8 [N, CHIPS, BANDS].
    """

    heard: Floats
    signs: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Speech:
    """Speech of a character.

    Attributes:
        wave: at its sample rate.
        sample_rate: in Hz.
    """

    wave: Floats
    sample_rate: int


def make(spoken: Sequence[Speech], each: int, random: np.random.Generator) -> Lessons:
    """Mark and damage each speech so many times, each time otherwise."""
    made = [_lesson(speech, random) for speech in spoken for _ in range(each)]
    return Lessons(np.stack([heard for heard, _ in made]), np.stack([signs for _, signs in made]))


def _lesson(speech: Speech, random: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int8]]:
    count = round(_SECONDS * speech.sample_rate)
    begin = int(random.integers(0, max(1, len(speech.wave) - count)))
    wave = np.resize(speech.wave[begin : begin + count], count)
    key, payload = WatermarkKey(random.bytes(SHORTEST_KEY)), int(random.integers(1 << 16))
    seed = int(random.integers(1 << 31))
    marked = Watermark(key, payload, speech.sample_rate).mark(wave, seed)
    # A weaker mark, too: in places there is less of it than elsewhere.
    part = random.uniform(0.5, 1.0)
    heard = _damaged(wave + part * (marked - wave), speech.sample_rate, random)
    chips = (key.first_chip(seed) + np.arange(CHIPS)) % PERIOD
    signs = np.asarray(key.pattern(payload)[chips], np.int8)
    return features(powers(heard)[: CHIPS * CHIP_FRAMES]), signs


def _damaged(wave: Floats, rate: int, random: np.random.Generator) -> Floats:
    """Return it at RATE after a way to those who check it, at most half a frame late or early."""
    sound = scipy.signal.resample_poly(wave, RATE, rate).astype(np.float32)
    way = random.random()
    if way < 0.5:
        level = np.sqrt(np.square(sound).mean()) * 10 ** (-random.uniform(15, 26) / 20)
        sound = sound + level * random.standard_normal(len(sound))
    elif way < 0.65:
        sound = augment.codec(sound, random)
    elif way < 0.8:
        sound = augment.room(sound, random)
    shift = int(random.integers(-_FARTHEST, _FARTHEST + 1))
    return np.asarray(np.roll(sound, shift), np.float32)
