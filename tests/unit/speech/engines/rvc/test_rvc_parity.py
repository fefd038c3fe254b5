from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from numpy.random import default_rng

from speech.engines.rvc.voice import RvcVoice, VoiceOptions
from tests.unit.speech.engines.rvc import golden
from tests.unit.speech.engines.rvc.original import convert_as_original

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from speech.engines.rvc.pitch.tracks import Contour
    from speech.engines.rvc.voice import Noise

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
        self._synthesizer = golden.synthesizer(file)
        self.sample_rate = self._synthesizer.sample_rate
        self.harmonics = self._synthesizer.harmonics
        self.contours: list[Contour] = []

    def speak(self, features: Array, contour: Contour | None, speaker: int, noise: Noise) -> Array:
        assert contour is not None
        self.contours.append(contour)
        return self._synthesizer.speak(features, contour, speaker, noise)


@pytest.mark.parametrize(
    "case", [CLASSIC, CLASSIC_EXPORT, MAIN], ids=["2024, .pth", "2024, .onnx", "2026, .pth"]
)
def test_a_conversion_equals_that_of_the_original_tools(case: Case) -> None:
    arrays = golden.case(case.name)
    synthesizer = Noting(case.voice)
    options = VoiceOptions(
        speaker=int(arrays["sid"]),
        index_rate=float(arrays["index_rate"]),
        search="cell",
        protect=float(arrays["protect"]),
        loudness_mix=float(arrays["rms"]),
        unvoiced=case.unvoiced,
    )
    voice = RvcVoice(
        golden.RecordedEncoder(arrays), synthesizer, golden.retrieval(case.index), options
    )

    converted = convert_as_original(
        arrays["audio"],
        voice,
        golden.RecordedPitch(arrays).track,
        float(arrays["up"]),
        default_rng(golden.SEED),
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
