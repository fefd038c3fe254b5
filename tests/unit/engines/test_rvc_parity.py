from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from numpy.random import default_rng

from shared.speech.engines.rvc_networks import RvcNetworks, RvcOptions
from shared.speech.engines.rvc_signal import divide_peak, feature_count
from tests.unit.engines import rvc_golden
from tests.unit.engines.rvc_original import convert_as_original

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.speech.engines.rvc_networks import SynthesizerNoise
    from shared.speech.engines.rvc_signal import Contour


if TYPE_CHECKING:
    Array = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A reference output, and the files and the pipeline that it was made with."""

    name: str
    voice: str
    index: str
    unvoiced: Literal["zero", "fill"]


CLASSIC = Case("classic-v2-40k-index-protect", "v2-f0-40k.pth", "v2.index", "zero")
CLASSIC_EXPORT = Case(
    "classic-v2-40k-index-protect", "v2-f0-40k.official-2024-11.onnx", "v2.index", "zero"
)
MAIN = Case("main-v1-40k-index", "v1-f0-40k.pth", "v1.index", "fill")


class Noting:
    """A synthesizer that notes what it is told of pitch."""

    def __init__(self, file: str) -> None:
        self._synthesizer = rvc_golden.synthesizer(file)
        self.sample_rate = self._synthesizer.sample_rate
        self.harmonics = self._synthesizer.harmonics
        self.contours: list[Contour] = []

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        assert contour is not None
        self.contours.append(contour)
        return self._synthesizer.speak(features, contour, speaker, noise)


@pytest.mark.parametrize(
    "case", [CLASSIC, CLASSIC_EXPORT, MAIN], ids=["2024, .pth", "2024, .onnx", "2026, .pth"]
)
def test_a_conversion_equals_that_of_the_original_tools(case: Case) -> None:
    arrays = rvc_golden.case(case.name)
    synthesizer = Noting(case.voice)
    options = RvcOptions(
        speaker=int(arrays["sid"]),
        index_rate=float(arrays["index_rate"]),
        search="cell",
        protect=float(arrays["protect"]),
        loudness_mix=float(arrays["rms"]),
        unvoiced=case.unvoiced,
    )
    voice = RvcNetworks(
        rvc_golden.RecordedEncoder(arrays), synthesizer, rvc_golden.retrieval(case.index), options
    )

    converted = convert_as_original(
        arrays["audio"],
        voice,
        rvc_golden.RecordedPitch(arrays).track,
        float(arrays["up"]),
        default_rng(rvc_golden.SEED),
    )

    told = synthesizer.contours[0]
    assert told.coarse.tolist() == arrays["in0_2"][0].tolist()
    assert told.hertz == pytest.approx(arrays["in0_3"][0])
    assert converted.shape == arrays["out"].shape
    assert_same(converted, arrays["out"])


def assert_same(converted: NDArray[Any], expected: NDArray[np.int16]) -> None:
    apart = np.abs(converted.astype(np.int64) - expected)
    assert apart.max() <= 2
    assert np.mean(apart > 1) <= 0.005


@dataclass
class Listening:
    """An encoder and a synthesizer in one that note what they are given."""

    sample_rate: int = 16_000
    harmonics: int = 1
    waves: list[Array] = field(default_factory=list)
    contours: list[Contour | None] = field(default_factory=list)
    noises: list[SynthesizerNoise] = field(default_factory=list)

    def encode(self, wave: Array) -> Array:
        self.waves.append(wave)
        return np.zeros((feature_count(len(wave)), 4), np.float32)

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        del speaker
        self.contours.append(contour)
        self.noises.append(noise)
        return np.full(len(features) * self.sample_rate // 100, 0.1 * len(self.waves), np.float32)


def voice_of(listening: Listening, options: RvcOptions) -> RvcNetworks:
    return RvcNetworks(listening, listening, None, options)


def flat(wave: Array) -> Array:
    return np.full(len(wave) // 160 + 1, 100, np.float32)


@pytest.mark.parametrize(("unvoiced", "expected"), [("zero", 0.0), ("fill", 200.0)])
def test_unvoiced_frames_are_passed_as_in_the_voices_training(
    unvoiced: str, expected: float
) -> None:
    def track(wave: Array) -> Array:
        hertz = flat(wave)
        hertz[20:30] = 0
        return hertz

    listening = Listening()
    options = RvcOptions(unvoiced="fill" if unvoiced == "fill" else "zero")

    convert_as_original(np.ones(16_000), voice_of(listening, options), track, 12, default_rng(0))

    told = listening.contours[0]
    assert told is not None
    assert told.hertz[25] == expected
    assert told.hertz[10] == 200


def test_a_voice_without_pitch_gets_none_and_draws_only_its_priors_noise() -> None:
    listening = Listening(harmonics=0)

    def refuse(_: Array) -> Array:
        raise AssertionError

    convert_as_original(
        np.ones(16_000), voice_of(listening, RvcOptions()), refuse, 0, default_rng(7)
    )

    assert listening.contours == [None]
    noise = listening.noises[0]
    assert noise.source.size == 0
    drawn = default_rng(7).standard_normal(noise.prior.shape, np.float32)
    assert noise.prior == pytest.approx(0.66666 * drawn)


def test_the_noise_of_a_prior_is_drawn_before_that_of_its_source() -> None:
    listening = Listening(sample_rate=32_000, harmonics=2)

    convert_as_original(np.ones(16_000), voice_of(listening, RvcOptions()), flat, 0, default_rng(7))

    random = default_rng(7)
    noise = listening.noises[0]
    frames = len(noise.source) // 320
    prior = random.standard_normal((192, frames), np.float32)
    assert noise.prior == pytest.approx(0.66666 * prior)
    assert noise.source.tolist() == random.standard_normal((frames * 320, 2), np.float32).tolist()


def test_a_recording_louder_than_its_highest_peak_is_turned_down() -> None:
    assert divide_peak(np.array([1.9, -0.5])).tolist() == pytest.approx([0.95, -0.25])
    assert divide_peak(np.array([0.9, -0.5])).tolist() == [0.9, -0.5]
