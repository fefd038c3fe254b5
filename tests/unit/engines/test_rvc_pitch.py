from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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
from tests.unit.graphs import small_graphs

Array = NDArray[np.float32]


def graph_of(text: str, **constants: Any) -> Graph:
    content = small_graphs.content(small_graphs.graph(text, **constants))
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
    text = """
        pitch (float[1,128,frames] mel) => (float[a,b,c] output) <int64[1] bands = {1}> {
            loudest = ReduceMax <keepdims=1> (mel, bands)
            column = Transpose <perm=[0, 2, 1]> (loudest)
            nothing = Mul(column, none)
            output = Add(nothing, salience)
        }
    """
    salience = peak_at(1_200 * np.log2(hertz / 10))[None, None]
    return graph_of(text, none=0.0, salience=salience)


@pytest.mark.parametrize("samples", [16_159, 400])
def test_a_model_that_gives_salience_is_decoded_to_frames(samples: int) -> None:
    hertz = model_of(salience_model(220)).track(wave_of(2)[:samples])

    assert hertz.shape == (samples // 160 + 1,)
    assert hertz == pytest.approx(220, rel=1e-3)


def first_band(shape: str, threshold: str) -> Graph:
    """A model that gives the lowest band of each frame, plus a hundred times its threshold."""
    return graph_of(
        f"""
        pitch (float[1,{shape}] mel, float{threshold} threshold) => (float[a,b,c] pitchf)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, float hundred = {{100}}> {{
            band = Slice(mel, zero, one, axis)
            more = Mul(threshold, hundred)
            pitchf = Add(band, more)
        }}
        """,
        axis=np.array([1 + shape.split(",").index("128")]),
    )


@pytest.mark.parametrize("threshold", ["", "[1]"], ids=["scalar", "vector"])
def test_a_model_that_takes_rmvpes_mel_and_a_threshold_is_given_both(threshold: str) -> None:
    model = model_of(first_band("128,frames", threshold))
    wave = wave_of(1)

    assert model.track(wave) == pytest.approx(log_mel(wave, RMVPE_MEL)[:, 0] + 3, abs=1e-5)
    assert not model.hears_voicing


def waveform_model(*, has_unvoiced: bool) -> Graph:
    """A model that gives 200 Hz for every 160 samples; those of a positive mean are unvoiced."""
    outputs, nodes = "float[a,b] f0", ""
    if has_unvoiced:
        outputs += ", float[a,b] uv"
        nodes = "loud = Greater(means, none) uv = Cast <to=1> (loud)"
    return graph_of(
        f"""
        pitch (float[1,samples] waveform, float[1] threshold) => ({outputs})
        <int64[1] zero = {{0}}, float none = {{0}}, float two_hundred = {{200}}> {{
            line = Unsqueeze(waveform, zero)
            pooled = AveragePool <kernel_shape=[160], strides=[160]> (line)
            means = Squeeze(pooled, zero)
            nothing = Mul(means, none)
            unused = Mul(threshold, none)
            f0 = Sum(nothing, unused, two_hundred)
            {nodes}
        }}
        """
    )


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
    model = model_of(first_band("frames,128", ""))
    wave = wave_of(45)

    assert model.track(wave) == pytest.approx(log_mel(wave, FCPE_MEL)[:, 0] + 0.6, abs=1e-4)
    assert model.hears_voicing


@pytest.mark.parametrize(
    "inputs",
    [
        "float[1,80,frames] mel",
        "float[1,samples] mel",
        "int64[1,128,frames] mel",
        "float[1,128,frames] mel, float[1,128,frames] more",
    ],
)
def test_a_graph_of_no_known_form_is_refused(inputs: str) -> None:
    graph = graph_of(f"pitch ({inputs}) => (float[a,b,c] output) {{ output = Identity(mel) }}")

    with pytest.raises(BundleError, match=r"pitch.onnx: expected a pitch model that takes"):
        PitchModelContract().check(graph)


def test_a_model_that_gives_something_else_is_refused() -> None:
    text = "pitch (float[1,128,frames] mel) => (float[a,b,c] output) { output = Identity(mel) }"

    with pytest.raises(BundleError, match=r"pitch.onnx: expected"):
        model_of(graph_of(text))


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
