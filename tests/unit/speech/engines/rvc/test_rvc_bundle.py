from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from speech.bundles.files import BundleError
from speech.bundles.reading import load_character
from speech.engines.interface.engine import ConversionOptions
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings
from tests.unit.speech import graphs, signals
from tests.unit.speech.engines.rvc.voices import (
    CHANNELS,
    RATE,
    content_graph,
    retrieval_graph,
    synthesizer_graph,
    write_voice,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from speech.engines.interface.engine import Engine

AUTO = ConversionOptions()


def built(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Engine:
    bundle = write_voice(folder, contents, **changes)
    return build_engine(load_character(bundle, ENGINES), SessionSettings())


def refusal(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> str:
    with pytest.raises(BundleError) as error:
        built(folder, contents, **changes)
    return str(error.value)


def speech() -> NDArray[np.float32]:
    return signals.voice(signals.glide(120, 140, 0.8))


def difference(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())


def test_a_bundle_converts(tmp_path: Path) -> None:
    converted = built(tmp_path).convert(speech(), signals.RATE, AUTO)

    assert converted.shape == (round(0.8 * RATE),)
    assert signals.rms(converted) > 0.01


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("is_transposed", [False, True], ids=["time first", "channels first"])
def test_a_content_encoder_gives_the_same_output_in_all_its_forms(
    tmp_path: Path, rank: int, *, is_transposed: bool
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    other = {"content": content_graph(rank=rank, is_transposed=is_transposed)}

    expected = built(tmp_path / "one").convert(speech(), signals.RATE, AUTO)

    converted = built(tmp_path / "other", other).convert(speech(), signals.RATE, AUTO)
    assert difference(converted, expected) < 1e-5


def test_the_first_output_that_fits_the_synthesizer_is_used(tmp_path: Path) -> None:
    contents = {
        "content": content_graph(outputs=3),
        "synthesizer": synthesizer_graph(2 * CHANNELS),
    }

    assert built(tmp_path, contents).convert(speech(), signals.RATE, AUTO).any()


def test_the_manifest_may_name_the_output(tmp_path: Path) -> None:
    contents = {"content": content_graph(outputs=2)}

    message = refusal(tmp_path, contents, settings={"content_output": "features1"})

    assert message == (
        "content.onnx: expected features float32 [1, 24, 6] for 8000 samples at 16 kHz, as the"
        " synthesizer takes them, found 'features1' [1, 24, 12]."
    )


def test_an_output_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, settings={"content_output": "units9"}) == (
        "content.onnx: expected the output 'units9' that settings.content_output names, found only"
        " 'features0'."
    )


def test_an_encoder_of_another_width_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"synthesizer": synthesizer_graph(5)})

    assert message.startswith("content.onnx: expected features float32 [1, 24, 5]")


def test_an_encoder_with_a_second_input_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"content": synthesizer_graph(takes_pitch=False)})

    assert message.startswith("content.onnx: expected a content encoder with one input")


def test_a_voice_without_pitch_converts(tmp_path: Path) -> None:
    contents = {"synthesizer": synthesizer_graph(takes_pitch=False)}

    assert built(tmp_path, contents).convert(speech(), signals.RATE, AUTO).any()


def test_a_synthesizer_with_several_harmonics_is_given_noise_for_each(tmp_path: Path) -> None:
    contents = {"synthesizer": synthesizer_graph(harmonics=9)}

    assert built(tmp_path, contents).convert(speech(), signals.RATE, AUTO).any()


def test_a_synthesizer_of_another_rate_is_refused(tmp_path: Path) -> None:
    without_noise = {"synthesizer": synthesizer_graph(takes_pitch=False, hop=400)}

    assert refusal(tmp_path, without_noise) == (
        "synthesizer.onnx: output 'audio': expected float32 [1, 1, 3840] for 12 frames at 32000 Hz,"
        " found [1, 1, 4800]."
    )


def test_a_synthesizer_that_wants_more_noise_than_its_rate_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"synthesizer": synthesizer_graph(hop=400)})

    assert message.startswith("synthesizer.onnx: expected a graph that takes 'phone' [1, 12, 6]")


def test_a_synthesizer_without_a_length_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"synthesizer": graphs.content(graphs.harmonic_graph())})

    assert message.startswith("synthesizer.onnx: input 'phone': expected float32 [1, frames,")


def test_a_sample_rate_that_does_not_make_whole_frames_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, sample_rate=22_055) == (
        "character.json: field 'sample_rate': expected a multiple of 100, found 22055."
    )


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("speaker", -1, "a whole number from 0 to 9999"),
        ("speaker", 1.5, "a whole number from 0 to 9999"),
        ("speaker", True, "a whole number from 0 to 9999"),
        ("index_rate", 1.1, "a number from 0 to 1"),
        ("index_rate", "all", "a number from 0 to 1"),
        ("protect", 0.6, "a number from 0 to 0.5"),
        ("loudness_mix", True, "a number from 0 to 1"),
        ("search", "nearby", '"exact" or "cell"'),
        ("unvoiced", "keep", '"zero" or "fill"'),
        ("content_output", "", "the name of an output"),
    ],
)
def test_a_wrong_setting_is_refused(
    tmp_path: Path, setting: str, value: Any, expected: str
) -> None:
    assert refusal(tmp_path, settings={setting: value}) == (
        f"character.json: field 'settings.{setting}': expected {expected}, found {value!r}."
    )


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, settings={"index_ratio": 0.5})

    assert message.startswith(
        "character.json: field 'settings.index_ratio': expected only speaker, index_rate,"
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_vectors_lead_the_features(tmp_path: Path, kind: type[np.floating]) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    vectors = np.full((9, CHANNELS), 1_000, kind)

    without = built(tmp_path / "without").convert(speech(), signals.RATE, AUTO)
    led = built(tmp_path / "with", {"retrieval": retrieval_graph(vectors)})

    assert difference(led.convert(speech(), signals.RATE, AUTO), without) > 1e-3


def test_cells_may_be_numbered_in_32_bits(tmp_path: Path) -> None:
    graph = retrieval_graph(np.ones((9, CHANNELS), np.float16), kind=np.int32)

    assert built(tmp_path, {"retrieval": graph}).convert(speech(), signals.RATE, AUTO).any()


def test_an_index_rate_of_0_leaves_the_vectors_out(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    vectors = np.full((9, CHANNELS), 3, np.float16)

    without = built(tmp_path / "without").convert(speech(), signals.RATE, AUTO)
    led = built(
        tmp_path / "with", {"retrieval": retrieval_graph(vectors)}, settings={"index_rate": 0}
    )

    assert difference(led.convert(speech(), signals.RATE, AUTO), without) == 0


def test_vectors_of_another_width_are_refused(tmp_path: Path) -> None:
    vectors = np.ones((9, CHANNELS + 1), np.float16)

    assert refusal(tmp_path, {"retrieval": retrieval_graph(vectors)}) == (
        "retrieval.onnx: output 'vectors': expected 6 values each, as the content encoder gives,"
        " found 7."
    )


def test_cells_that_do_not_fit_the_vectors_are_refused(tmp_path: Path) -> None:
    vectors = np.ones((3, CHANNELS), np.float16)

    assert refusal(tmp_path, {"retrieval": retrieval_graph(vectors, cells=[0, 1, 0])}) == (
        "retrieval.onnx: expected vectors for the retrieval, found: cells: expected 0 to 0, found"
        " others."
    )


def test_vectors_of_another_type_are_refused(tmp_path: Path) -> None:
    vectors = np.ones((3, CHANNELS), np.int64)

    assert refusal(tmp_path, {"retrieval": retrieval_graph(vectors)}) == (
        "retrieval.onnx: output 'vectors': expected float32 [any, any], found int64 [3, 6]."
    )


def test_two_characters_share_an_encoder_as_long_as_one_of_them_lives(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "third").mkdir()
    settings = SessionSettings()
    counted: list[str] = []

    class Counting(type(settings.sharing)):  # type: ignore[misc] # a class is known only here
        def get(self, key: str, load: Any) -> Any:
            def counting() -> Any:
                counted.append(key)
                return load()

            return super().get(key, counting)

    settings = SessionSettings(sharing=Counting())
    bundles = [
        write_voice(tmp_path / "one"),
        write_voice(tmp_path / "other", settings={"speaker": 1}),
        write_voice(tmp_path / "third", {"content": content_graph(rank=2)}),
    ]

    engines = [build_engine(load_character(bundle, ENGINES), settings) for bundle in bundles]

    digests = [
        json.loads((bundle / "character.json").read_text())["graphs"]["content"]["sha256"]
        for bundle in bundles
    ]
    assert digests[0] == digests[1] != digests[2]
    assert [key for key in counted if digests[0] in key] == [f"session {digests[0]} 1 cpu"]
    assert [key for key in counted if digests[2] in key] == [f"session {digests[2]} 1 cpu"]
    assert len(engines) == 3
