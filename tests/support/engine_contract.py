"""The contract of `Engine`: each engine's tests inherit it and define the fixture `engine`."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.speech.engines.interface import ConversionOptions
from shared.voices.voice import ErrorCode, VoiceError
from tests.unit.signal import signals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.engines.interface import Engine
    from shared.speech.signal.sound import Samples

AUTO = ConversionOptions()


def words(count: int = 3) -> Samples:
    """Make words of half a second with pauses between."""
    parts = []
    for index in range(count):
        hertz = signals.glide(110 + 10 * index, 150 - 5 * index, 0.6, vibrato=0.01)
        parts += [signals.voice(hertz), signals.silence(0.4)]
    return np.concatenate(parts)


class Notes:
    """Records the stages that a conversion enters."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.stages.append(name)
        yield


class EngineContract:
    has_noise: ClassVar = True
    """Whether another seed gives other samples."""
    least_seconds: ClassVar = 0.0

    @given(
        samples=st.integers(1, 30_000),
        rate=st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000]),
    )
    @settings(
        deadline=None,
        max_examples=15,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @example(samples=1, rate=44_100)
    @example(samples=1, rate=8_000)
    def test_a_conversion_lasts_exactly_as_long_as_the_recording(
        self, engine: Engine, samples: int, rate: int
    ) -> None:
        samples = max(samples, math.ceil(self.least_seconds * rate))
        converted = engine.convert(np.resize(words(), samples), rate, AUTO)

        assert converted.shape == (int(np.floor(samples * engine.sample_rate / rate + 0.5)),)
        assert converted.dtype == np.float32
        assert np.abs(converted).max() <= 0.99

    @pytest.mark.parametrize("decibels", [None, -62.0])
    def test_silence_stays_silent(self, engine: Engine, decibels: float | None) -> None:
        sound = signals.silence(2.0)
        if decibels is not None:
            sound = signals.level(signals.hiss(2.0), decibels)

        assert signals.decibels(engine.convert(sound, signals.RATE, AUTO)) < -60

    def test_pauses_stay_silent_and_words_are_heard(self, engine: Engine) -> None:
        converted, rate = engine.convert(words(), signals.RATE, AUTO), engine.sample_rate

        for second in range(3):
            part = converted[second * rate : (second + 1) * rate]
            assert signals.decibels(part[rate // 20 : rate * 11 // 20]) > -35
            assert signals.decibels(part[rate * 17 // 20 : rate * 9 // 10]) < -60

    @pytest.mark.parametrize("gain", [0.02, 1.0, 60.0])
    def test_nothing_clips_at_any_level(self, engine: Engine, gain: float) -> None:
        converted = engine.convert(words() * np.float32(gain), signals.RATE, AUTO)

        assert np.abs(converted).max() <= 0.99
        assert signals.decibels(converted) > -45

    def test_the_ends_do_not_click(self, engine: Engine) -> None:
        converted = engine.convert(
            signals.voice(signals.glide(120, 120, 1.0))[37:], signals.RATE, AUTO
        )

        assert np.abs(converted[[0, -1]]).max() < 1e-3
        ends = np.concatenate([converted[:24], converted[-24:]])
        assert np.abs(ends).max() < 0.15 * np.abs(converted).max()

    def test_the_same_seed_gives_the_same_samples(self, engine: Engine) -> None:
        first, again, other = (
            engine.convert(words(1), signals.RATE, ConversionOptions(seed=seed))
            for seed in (7, 7, 8)
        )

        np.testing.assert_array_equal(first, again)
        assert np.array_equal(first, other) is not self.has_noise

    def test_threads_convert_at_the_same_time_and_get_the_same(self, engine: Engine) -> None:
        sounds = [signals.voice(signals.glide(100 + 10 * k, 150, 1.0)) for k in range(6)]
        alone = [engine.convert(sound, signals.RATE, AUTO) for sound in sounds]
        start = threading.Barrier(len(sounds))

        def convert(sound: Samples) -> Samples:
            start.wait()
            return engine.convert(sound, signals.RATE, AUTO)

        with ThreadPoolExecutor(len(sounds)) as pool:
            together = list(pool.map(convert, sounds))
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("value", [np.nan, -np.inf, 1e30])
    def test_samples_that_are_not_audio_are_refused(self, engine: Engine, value: float) -> None:
        sound = words()
        sound[123] = value

        with pytest.raises(VoiceError, match="not audio") as refusal:
            engine.convert(sound, signals.RATE, AUTO)
        assert refusal.value.code is ErrorCode.CORRUPT

    @pytest.mark.parametrize(
        ("sound", "rate", "found"),
        [
            (np.zeros((2, 100), np.float32), 16_000, r"float32 \[2, 100\]"),
            (np.zeros(100, np.float64), 16_000, r"float64 \[100\]"),
            (np.zeros(100, np.float32), 0, "0 Hz"),
            (np.zeros(100, np.float32), 1_000_000, "1000000 Hz"),
        ],
    )
    def test_anything_but_mono_audio_is_a_programming_error(
        self, engine: Engine, sound: Samples, rate: int, found: str
    ) -> None:
        with pytest.raises(ValueError, match=found):
            engine.convert(sound, rate, AUTO)

    def test_a_conversion_reports_its_stages(self, engine: Engine) -> None:
        notes = Notes()

        engine.convert(words(), signals.RATE, AUTO, notes)

        assert list(dict.fromkeys(notes.stages)) == ["resample", "f0", "network", "post"]

    @pytest.mark.parametrize(
        ("rate", "seconds"),
        [(48_000, 0.0), (16_000, 0.004), (44_100, 0.637)],
    )
    def test_a_stream_lasts_as_long_as_the_recording(
        self, engine: Engine, rate: int, seconds: float
    ) -> None:
        sound = np.zeros(round(rate * seconds), np.float32)
        stream = engine.open_stream(rate, AUTO)
        if stream is None:
            return

        pieces = [stream.push(sound), stream.finish()]

        length = int(np.floor(len(sound) * engine.sample_rate / rate + 0.5))
        assert sum(map(len, pieces)) == length
        with pytest.raises(VoiceError, match="not audio"):
            stream.push(np.full(100, np.nan, np.float32))
