from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.speech.text.front_end import Reading
    from shared.speech.text.phonemes import Phonemes

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


def spoken(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """Normalise to the peak, as Style-Bert-VITS2 does."""
    normalised: NDArray[np.int16] = (wave / np.abs(wave).max() * 32767).astype(np.int16)
    return normalised


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

    wave = spoken(engine.infer(TEXTS[int(index)], inference))

    assert len(wave) == len(WAVES[key])
    assert np.abs(wave.astype(int) - WAVES[key]).max() <= 2


def test_the_same_seed_gives_the_same_samples(engine: StyleBertVits2Engine) -> None:
    first = engine.infer("こんにちは", Inference(seed=7))

    np.testing.assert_array_equal(engine.infer("こんにちは", Inference(seed=7)), first)


def test_another_seed_gives_other_samples(engine: StyleBertVits2Engine) -> None:
    first = engine.infer("こんにちは", Inference(seed=7))
    other = engine.infer("こんにちは", Inference(seed=8))

    assert len(first) != len(other) or np.abs(first - other).max() > 0.01


def test_sentences_come_one_after_the_other(engine: StyleBertVits2Engine) -> None:
    *sentences, after = engine.speak(TEXTS[12], SpeechOptions())

    assert len(sentences) == 4
    assert all(np.abs(sentence).max() > 0.1 for sentence in sentences)
    assert len(after) == round(0.1 * engine.sample_rate)
    assert not after.any()


def test_the_first_sentence_comes_before_the_others_are_computed(bundle: StyleBertGraphs) -> None:
    encoder = BertEncoder(shared_session(bundle.encoder, SETTINGS), bundle.vocabulary)
    counting = CountingSynthesis(bundle.voice, shared_session(bundle.synthesis, SETTINGS), encoder)
    engine = StyleBertVits2Engine(bundle.voice, counting, Reader())

    pieces = engine.speak("これは最初の文です。これは二番目の文です。", SpeechOptions())
    next(pieces)

    assert counting.runs == 1


class CountingSynthesis(StyleBertSynthesis):
    """Counts what it speaks."""

    runs = 0

    def speak(self, phonemes: Phonemes, inference: Inference) -> NDArray[np.float32]:
        self.runs += 1
        return super().speak(phonemes, inference)


def test_speech_fills_the_scale_and_no_more(engine: StyleBertVits2Engine) -> None:
    loudest = np.abs(whole(engine, TEXTS[0])).max()

    assert 0.9 < loudest <= 1.0
    assert np.abs(whole(engine, TEXTS[0], volume=8.0)).max() <= 1.0
    assert np.abs(whole(engine, TEXTS[0], volume=0.25)).max() == pytest.approx(loudest / 4, rel=0.1)


def test_another_pitch_changes_the_samples_and_not_the_length(
    engine: StyleBertVits2Engine,
) -> None:
    usual, high = (whole(engine, TEXTS[2], pitch=pitch) for pitch in (0.0, 3.0))

    assert abs(len(usual) - len(high)) < 0.05 * engine.sample_rate


def test_a_style_sounds_different_from_another(engine: StyleBertVits2Engine) -> None:
    usual, happy = whole(engine, TEXTS[0]), whole(engine, TEXTS[0], style=HAPPY)

    assert len(usual) != len(happy) or np.abs(usual - happy).max() > 0.01


def test_a_graph_with_wrong_inputs_is_refused_by_name(bundle: StyleBertGraphs) -> None:
    broken = StyleBertGraphs(
        bundle.voice,
        graph("voice.onnx", small_graphs.content(small_graphs.harmonic_graph())),
        bundle.encoder,
        bundle.vocabulary,
    )

    with pytest.raises(BundleError, match=r"voice\.onnx: input 'x_tst': expected int64"):
        build_from_graphs(broken, Reader(), SETTINGS)


def test_voices_with_the_same_encoder_share_it(bundle: StyleBertGraphs) -> None:
    first = shared_session(bundle.encoder, SETTINGS)
    copy = graph("another.onnx", bytes(bytearray(bundle.encoder.content)))

    assert shared_session(copy, SETTINGS) is first


def test_an_unused_session_is_freed(bundle: StyleBertGraphs) -> None:
    settings = SessionSettings()
    session = weakref.ref(shared_session(bundle.encoder, settings))

    assert session() is None


def test_changed_phrases_change_the_speech(engine: StyleBertVits2Engine) -> None:
    text = "これは、橋です。"
    phrases = engine.read_phrases(text)
    changed = [*phrases[:-1], replace(phrases[-1], accent=1)]

    for source in (text, None):
        wave = np.concatenate(list(engine.speak_phrases(changed, source, SpeechOptions())))
        usual = whole(engine, text)
        assert len(wave) != len(usual) or np.abs(wave - usual).max() > 0.01


def test_livelier_tempo_leaves_more_of_the_durations_to_chance(
    engine: StyleBertVits2Engine,
) -> None:
    ratios = [
        engine.inference(SpeechOptions(tempo_dynamics=value)).sdp_ratio for value in (0, 1, 2, 9)
    ]

    assert ratios == pytest.approx([0.0, 0.2, 1.0, 1.0])


class MeasuringSynthesis(StyleBertSynthesis):
    """Counts the phones of each call."""

    def speak(self, phonemes: Phonemes, inference: Inference) -> NDArray[np.float32]:
        del inference
        self.called_with = [*getattr(self, "called_with", []), len(phonemes.phones)]
        return np.ones(1_000, np.float32)


@pytest.mark.parametrize("text", ["あ" * 500, None])
def test_changed_phrases_of_a_repeated_sound_are_spoken_in_bounded_pieces(
    bundle: StyleBertGraphs, text: str | None
) -> None:
    encoder = BertEncoder(shared_session(bundle.encoder, SETTINGS), bundle.vocabulary)
    synthesis = MeasuringSynthesis(
        bundle.voice, shared_session(bundle.synthesis, SETTINGS), encoder
    )
    engine = StyleBertVits2Engine(bundle.voice, synthesis, Reader())
    (phrase, *_) = engine.read_phrases("か" * 500)
    phrases = [replace(phrase, morae=phrase.sounding[:1] * 500, accent=300)]

    list(engine.speak_phrases(phrases, text, SpeechOptions()))

    assert sum(synthesis.called_with) > 1_000
    assert max(synthesis.called_with) <= 252


def test_the_phrases_of_a_text_without_end_are_read_in_pieces(bundle: StyleBertGraphs) -> None:
    reader = MeasuringReader()
    engine = StyleBertVits2Engine(
        bundle.voice, StyleBertSynthesis.__new__(StyleBertSynthesis), reader
    )

    phrases = engine.read_phrases("あ" * 2_000)

    assert sum(len(phrase.sounding) for phrase in phrases) == 2_000
    assert max(reader.asked) <= 120


class MeasuringReader(Reader):
    """Remembers how long the texts were."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def read(self, text: str) -> Reading:
        self.asked.append(len(text))
        return super().read(text)
