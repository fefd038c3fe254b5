from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.speech.engines.style_bert_graphs import BertEncoder, Inference, StyleBertSynthesis
from shared.speech.engines.style_bert_vits2 import (
    StyleBertGraphs,
    StyleBertVits2Engine,
    build_from_graphs,
)
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.sessions import SessionSettings, shared_session
from shared.speech.text.front_end import Reader
from shared.speech.text.phonemes import Phonemes
from tests.support.golden_speech import (
    FOLDER,
    REFERENCE,
    SENTENCES,
    graph,
    style_bert_graphs,
    vocabulary,
)
from tests.support.text_engine_contract import TextEngineContract, whole
from tests.unit.graphs import small_graphs

WAVES = np.load(FOLDER / "waves.npz")
FEATURES = np.load(FOLDER / "bert.npz")
TEXTS = {sentence["index"]: sentence["text"] for sentence in SENTENCES}
SETTINGS = SessionSettings()
HAPPY = 1944437185


@pytest.fixture(scope="module")
def bundle() -> StyleBertGraphs:
    return style_bert_graphs()


@pytest.fixture(scope="module")
def engine(bundle: StyleBertGraphs) -> StyleBertVits2Engine:
    return build_from_graphs(bundle, Reader(), SETTINGS)


class TestStyleBertVits2(TextEngineContract):
    pass


@pytest.mark.parametrize("key", sorted(FEATURES))
def test_bert_answers_as_in_the_reference(key: str, bundle: StyleBertGraphs) -> None:
    sentence = next(each for each in SENTENCES if key == f"tok_{each['index']:02}")
    encoder = BertEncoder(shared_session(bundle.encoder, SETTINGS), vocabulary())

    features = encoder.encode(sentence["bert_text"])

    np.testing.assert_allclose(features, FEATURES[key], atol=1e-5)


@pytest.mark.parametrize("key", sorted(WAVES))
def test_a_voice_speaks_as_in_the_reference(key: str, engine: StyleBertVits2Engine) -> None:
    _, index, number = key.split("_")
    variant = REFERENCE["variants"][int(number)]
    inference = Inference(
        speaker=variant["sid"],
        style=variant["style"],
        style_weight=variant["weight"],
        sdp_ratio=variant["sdp_ratio"],
        length_scale=variant["length"],
        noise_scale=0.0,
        noise_scale_w=0.0,
    )

    wave = engine.infer(TEXTS[int(index)], inference)
    wave = (wave / np.abs(wave).max() * 32767).astype(np.int16)  # as Style-Bert-VITS2 does

    assert len(wave) == len(WAVES[key])
    assert np.abs(wave.astype(int) - WAVES[key]).max() <= 2


def test_only_the_same_seed_gives_the_same_samples(engine: StyleBertVits2Engine) -> None:
    first, again, other = (engine.infer("こんにちは", Inference(seed=seed)) for seed in (7, 7, 8))

    np.testing.assert_array_equal(again, first)
    assert differs(first, other)


def differs(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return len(one) != len(other) or bool(np.abs(one - other).max() > 0.01)


def test_speech_fills_the_scale_and_has_the_pitch_and_style_that_are_asked_for(
    engine: StyleBertVits2Engine,
) -> None:
    usual = whole(engine, TEXTS[0])

    assert 0.9 < np.abs(usual).max() <= 1.0
    assert differs(whole(engine, TEXTS[0], style=HAPPY), usual)
    higher = whole(engine, TEXTS[0], pitch=3.0)
    assert differs(higher, usual)
    assert len(higher) == len(usual)


def test_a_graph_with_wrong_inputs_is_refused_by_name(bundle: StyleBertGraphs) -> None:
    broken = StyleBertGraphs(
        bundle.voice,
        graph("voice.onnx", small_graphs.content(small_graphs.harmonic_graph())),
        bundle.encoder,
        bundle.vocabulary,
    )

    with pytest.raises(BundleError, match=r"voice\.onnx: input 'x_tst': expected int64"):
        build_from_graphs(broken, Reader(), SETTINGS)


@pytest.mark.parametrize(
    ("text", "kana"),
    [
        ("気温は-3℃", "キオンワマイナスサンド"),
        ("①80%と", "イチハチジュッパアセントト"),
        ("12:30に", "ジュウニジサンジュップンニ"),
        ("3/1〜3/7", "サンガツツイタチカラサンガツナノカ"),
    ],
)
def test_numbers_and_their_signs_are_read_as_they_are_said(
    engine: StyleBertVits2Engine, text: str, kana: str
) -> None:
    phrases = engine.read_phrases(text)
    assert "".join(mora.kana for phrase in phrases for mora in phrase.sounding) == kana


def test_changed_phrases_change_the_speech(engine: StyleBertVits2Engine) -> None:
    text = "これは、橋です。"
    phrases = engine.read_phrases(text)
    changed = [*phrases[:-1], replace(phrases[-1], accent=1)]

    for source in (text, None):
        wave = np.concatenate(list(engine.speak_phrases(changed, source, SpeechOptions())))
        assert differs(wave, whole(engine, text))


def test_livelier_tempo_leaves_more_of_the_durations_to_chance(
    engine: StyleBertVits2Engine,
) -> None:
    ratios = [
        engine.inference(SpeechOptions(tempo_dynamics=value)).sdp_ratio for value in (0, 1, 2, 9)
    ]

    assert ratios == pytest.approx([0.0, 0.2, 1.0, 1.0])


class MeasuringSynthesis(StyleBertSynthesis):
    """Says the same tone each time, and counts the phones of each call."""

    def __init__(self, bundle: StyleBertGraphs) -> None:
        encoder = BertEncoder(shared_session(bundle.encoder, SETTINGS), bundle.vocabulary)
        super().__init__(bundle.voice, shared_session(bundle.synthesis, SETTINGS), encoder)
        self.phones: list[int] = []

    def speak(self, phonemes: Phonemes, inference: Inference) -> NDArray[np.float32]:
        del inference
        self.phones.append(len(phonemes.phones))
        return np.ones(1_000, np.float32)


@pytest.mark.parametrize("text", ["あ" * 500, None])
def test_changed_phrases_of_a_repeated_sound_are_spoken_in_bounded_pieces(
    bundle: StyleBertGraphs, text: str | None
) -> None:
    synthesis = MeasuringSynthesis(bundle)
    engine = StyleBertVits2Engine(bundle.voice, synthesis, Reader())
    (phrase, *_) = engine.read_phrases("か" * 500)
    phrases = [replace(phrase, morae=phrase.sounding[:1] * 500, accent=300)]

    list(engine.speak_phrases(phrases, text, SpeechOptions()))

    assert sum(synthesis.phones) > 1_000
    assert max(synthesis.phones) <= 252
