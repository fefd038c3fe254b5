from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from shared.characters.bundle_files import BundleError
from shared.speech.engines.rvc_pitch import (
    FCPE_MEL,
    RMVPE_MEL,
    MelKind,
    OnnxPitchModel,
    PitchModelContract,
    decode_salience,
    log_mel,
)
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from tests.unit.engines.rvc_voices import constant
from tests.unit.graphs import small_graphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import NodeProto, ValueInfoProto

    Array = NDArray[np.float32]


def graph_of(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    weights: Sequence[Any] = (),
) -> Graph:
    described = [small_graphs.tensor(name, [None, None]) for name in outputs]
    content = small_graphs.content(
        helper.make_graph(list(nodes), "pitch", list(inputs), described, list(weights))
    )
    return Graph("pitch.onnx", content, inspect_model(content))


def model_of(graph: Graph) -> OnnxPitchModel:
    PitchModelContract().check(graph)
    return OnnxPitchModel(graph, GraphSession(graph, SessionSettings()))


def peak_at(cents: float, height: float = 0.9) -> Array:
    """A salience with a peak, 25 cents wide, as RMVPE is trained to give it."""
    states = 1997.3794084376191 + 20 * np.arange(360)
    return (height * np.exp(-((states - cents) ** 2) / (2 * 25**2))).astype(np.float32)


@pytest.mark.parametrize("hertz", [50.0, 440.3, 1_000.0])
def test_the_pitch_is_read_between_the_states_and_a_weak_peak_is_unvoiced(hertz: float) -> None:
    cents = 1_200 * np.log2(hertz / 10)
    salience = np.stack(
        [peak_at(cents), peak_at(cents, 0.032), peak_at(cents, 0.029), np.zeros(360)]
    )

    assert decode_salience(salience) == pytest.approx([hertz, hertz, 0, 0], rel=1e-3)


@pytest.mark.parametrize("state", [0, 359])
def test_a_peak_at_the_end_of_the_scale_uses_only_existing_bins(state: int) -> None:
    salience = np.zeros((1, 360), np.float32)
    salience[0, state] = 0.5

    expected = 10 * 2 ** ((1997.3794084376191 + 20 * state) / 1_200)
    assert decode_salience(salience)[0] == pytest.approx(expected, rel=1e-6)


def wave_of(seconds: float) -> Array:
    return np.random.default_rng(0).standard_normal(round(seconds * 16_000), np.float32) * 0.1


def salience_model(hertz: float) -> Graph:
    """RMVPE with a mel spectrogram: it hears the same pitch in all frames."""
    nodes = [
        helper.make_node("ReduceMax", ["mel", "bands"], ["loudest"], keepdims=1),
        helper.make_node("Transpose", ["loudest"], ["column"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["column", "none"], ["nothing"]),
        helper.make_node("Add", ["nothing", "salience"], ["output"]),
    ]
    weights = [
        constant("bands", np.array([1])),
        constant("none", np.zeros(1, np.float32)),
        constant("salience", peak_at(1_200 * np.log2(hertz / 10))[None, None]),
    ]
    return graph_of(nodes, [small_graphs.tensor("mel", [1, 128, "frames"])], ["output"], weights)


@pytest.mark.parametrize("samples", [16_159, 400])
def test_a_model_that_gives_salience_is_decoded_to_frames(samples: int) -> None:
    hertz = model_of(salience_model(220)).track(wave_of(2)[:samples])

    assert hertz.shape == (samples // 160 + 1,)
    assert hertz == pytest.approx(220, rel=1e-3)


def first_band(shape: Sequence[int | str], threshold: Sequence[int]) -> Graph:
    """A model that gives the lowest band of each frame, plus a hundred times its threshold."""
    nodes = [
        helper.make_node("Slice", ["mel", "zero", "one", "axis"], ["band"]),
        helper.make_node("Mul", ["threshold", "hundred"], ["more"]),
        helper.make_node("Add", ["band", "more"], ["pitchf"]),
    ]
    weights = [
        constant("zero", np.array([0])),
        constant("one", np.array([1])),
        constant("axis", np.array([shape.index(128)])),
        constant("hundred", np.array(100, np.float32)),
    ]
    inputs = [small_graphs.tensor("mel", shape), small_graphs.tensor("threshold", list(threshold))]
    return graph_of(nodes, inputs, ["pitchf"], weights)


@pytest.mark.parametrize("threshold", [(), (1,)], ids=["scalar", "vector"])
def test_a_model_that_takes_rmvpes_mel_and_a_threshold_is_given_both(
    threshold: Sequence[int],
) -> None:
    model = model_of(first_band([1, 128, "frames"], threshold))
    wave = wave_of(1)

    assert model.track(wave) == pytest.approx(log_mel(wave, RMVPE_MEL)[:, 0] + 3, abs=1e-5)
    assert not model.hears_voicing


def waveform_model(*, has_unvoiced: bool) -> Graph:
    """A model that gives 200 Hz for every 160 samples; those of a positive mean are unvoiced."""
    nodes = [
        helper.make_node("Unsqueeze", ["waveform", "zero"], ["line"]),
        helper.make_node("AveragePool", ["line"], ["pooled"], kernel_shape=[160], strides=[160]),
        helper.make_node("Squeeze", ["pooled", "zero"], ["means"]),
        helper.make_node("Mul", ["means", "none"], ["nothing"]),
        helper.make_node("Mul", ["threshold", "none"], ["unused"]),
        helper.make_node("Sum", ["nothing", "unused", "two_hundred"], ["f0"]),
    ]
    weights = [
        constant("zero", np.array([0])),
        constant("none", np.zeros(1, np.float32)),
        constant("two_hundred", np.array(200, np.float32)),
    ]
    if has_unvoiced:
        nodes.append(helper.make_node("Greater", ["means", "none"], ["loud"]))
        nodes.append(helper.make_node("Cast", ["loud"], ["uv"], to=TensorProto.FLOAT))
    inputs = [
        small_graphs.tensor("waveform", [1, "samples"]),
        small_graphs.tensor("threshold", [1]),
    ]
    return graph_of(nodes, inputs, ["f0", "uv"] if has_unvoiced else ["f0"], weights)


@pytest.mark.parametrize("has_unvoiced", [False, True])
def test_a_model_that_hears_samples_is_given_them_and_may_mark_frames_as_unvoiced(
    *, has_unvoiced: bool
) -> None:
    wave = wave_of(1)
    means = wave.reshape(-1, 160).mean(axis=1)

    hertz = model_of(waveform_model(has_unvoiced=has_unvoiced)).track(wave)

    unvoiced = (means > 0) & has_unvoiced
    assert hertz.shape == (101,)
    assert hertz[:-1].tolist() == np.where(unvoiced, 0, 200).tolist()


def test_fcpe_gets_its_own_mel_and_follows_a_long_recording_in_parts_without_a_seam() -> None:
    model = model_of(first_band([1, "frames", 128], ()))
    wave = wave_of(45)

    assert model.track(wave) == pytest.approx(log_mel(wave, FCPE_MEL)[:, 0] + 0.6, abs=1e-4)
    assert model.hears_voicing


@pytest.mark.parametrize(
    "inputs",
    [
        [small_graphs.tensor("mel", [1, 80, "frames"])],
        [small_graphs.tensor("waveform", [1, "samples"])],
        [small_graphs.tensor("mel", [1, 128, "frames"], TensorProto.INT64)],
        [small_graphs.tensor(name, [1, 128, "frames"]) for name in ("mel", "more")],
    ],
)
def test_a_graph_of_no_known_form_is_refused(inputs: Sequence[ValueInfoProto]) -> None:
    graph = graph_of(
        [helper.make_node("Identity", [inputs[0].name], ["output"])], inputs, ["output"]
    )

    with pytest.raises(BundleError, match=r"pitch.onnx: expected a pitch model that takes"):
        PitchModelContract().check(graph)


def test_a_model_that_gives_something_else_is_refused() -> None:
    nodes = [helper.make_node("Identity", ["mel"], ["output"])]
    graph = graph_of(nodes, [small_graphs.tensor("mel", [1, 128, "frames"])], ["output"])

    with pytest.raises(BundleError, match=r"pitch.onnx: expected"):
        model_of(graph)


# Of librosa 0.11 with the settings of each model, for frames 0, 12 and 25, bands 0, 50 and 127.
REFERENCE = {
    RMVPE_MEL: [
        [-0.135073, -5.994330, -6.566617],
        [-5.193728, -11.512925, -11.512925],
        [-0.944860, -5.392371, -7.010612],
    ],
    FCPE_MEL: [
        [-0.390186, -5.865221, -6.625653],
        [-6.200279, -11.512925, -11.512925],
        [-1.209215, -5.390138, -7.067540],
    ],
}


@pytest.mark.parametrize("kind", REFERENCE, ids=["rmvpe", "fcpe"])
def test_a_spectrogram_is_librosas(kind: MelKind) -> None:
    at = np.arange(4_000)
    sound = np.sin(0.05 * at) + 0.1 * np.sin(0.9 * at + 0.0001 * at**2)

    mel = log_mel((0.3 * sound).astype(np.float32), kind)

    assert mel.shape == (26, 128)
    assert mel.dtype == np.float32
    assert mel[[0, 12, 25]][:, [0, 50, 127]] == pytest.approx(np.array(REFERENCE[kind]), abs=1e-4)
    for samples in (2, 159, 160, 1_024):
        short = log_mel(sound[:samples].astype(np.float32), kind)
        assert short.shape == (samples // 160 + 1, 128)
        assert np.isfinite(short).all()
