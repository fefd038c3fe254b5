from typing import Literal

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray

from shared.speech.engines.rvc_networks import (
    RvcNetworks,
    RvcOptions,
    SynthesizerNoise,
)
from shared.speech.engines.rvc_signal import Contour, divide_peak
from tests.unit.engines import rvc_golden
from tests.unit.engines.rvc_original import convert_as_original

Array = NDArray[np.float32]


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
    ("case", "voice", "index", "unvoiced"),
    [
        ("classic-v2-40k-index-protect", "v2-f0-40k.pth", "v2.index", "zero"),
        ("classic-v2-40k-index-protect", "v2-f0-40k.official-2024-11.onnx", "v2.index", "zero"),
        ("main-v1-40k-index", "v1-f0-40k.pth", "v1.index", "fill"),
    ],
    ids=["2024, .pth", "2024, .onnx", "2026, .pth"],
)
def test_a_conversion_equals_that_of_the_original_tools(
    case: str, voice: str, index: str, unvoiced: Literal["zero", "fill"]
) -> None:
    arrays = rvc_golden.case(case)
    synthesizer = Noting(voice)
    options = RvcOptions(
        speaker=int(arrays["sid"]),
        index_rate=float(arrays["index_rate"]),
        search="cell",
        protect=float(arrays["protect"]),
        loudness_mix=float(arrays["rms"]),
        unvoiced=unvoiced,
    )
    networks = RvcNetworks(
        rvc_golden.RecordedEncoder(arrays), synthesizer, rvc_golden.retrieval(index), options
    )

    converted = convert_as_original(
        arrays["audio"],
        networks,
        rvc_golden.RecordedPitch(arrays).track,
        float(arrays["up"]),
        default_rng(rvc_golden.SEED),
    )

    told = synthesizer.contours[0]
    assert told.coarse.tolist() == arrays["in0_2"][0].tolist()
    assert told.hertz == pytest.approx(arrays["in0_3"][0])
    assert converted.shape == arrays["out"].shape
    apart = np.abs(converted.astype(np.int64) - arrays["out"])
    assert apart.max() <= 2
    assert np.mean(apart > 1) <= 0.005


def test_a_recording_louder_than_its_highest_peak_is_turned_down() -> None:
    assert divide_peak(np.array([1.9, -0.5])).tolist() == pytest.approx([0.95, -0.25])
    assert divide_peak(np.array([0.9, -0.5])).tolist() == [0.9, -0.5]
