from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopenjtalk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from functions.compat.voicevox.queries import (
    AccentPhraseBody,
    AudioQuery,
    KanaError,
    KanaErrorCode,
    characters_of,
    estimate,
    parse_kana,
    phrases_of,
    query_of,
    speak,
)
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from numpy.typing import NDArray


TEXT = "こんにちは、好きですか？"
RATE = 24_000
MORA = {"text": "ア", "vowel": "a", "vowel_length": 0, "pitch": 0}


@pytest.fixture(scope="module")
def engine() -> JapaneseEngine:
    voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
    return JapaneseEngine(voice, FrontEnd(), sample_rate=RATE)


@pytest.fixture
def query(engine: JapaneseEngine) -> AudioQuery:
    return query_of(engine.read_phrases(TEXT), TEXT)


def changed(query: AudioQuery, **fields: Any) -> AudioQuery:
    return AudioQuery.model_validate(query.model_dump(by_alias=True) | fields)


def heard(engine: JapaneseEngine, query: AudioQuery) -> NDArray[np.float32]:
    return np.concatenate(list(speak(engine, query, SpeechOptions().style)))


def test_a_query_is_written_in_the_clients_spelling(query: AudioQuery) -> None:
    body = query.model_dump(by_alias=True)

    assert (body["speedScale"], body["outputSamplingRate"], body["kana"]) == (1.0, 24_000, TEXT)
    first = body["accent_phrases"][0]["moras"]
    assert first[0] == {
        "text": "コ",
        "consonant": "k",
        "consonant_length": 0.0,
        "vowel": "o",
        "vowel_length": 0.0,
        "pitch": 0.0,
    }
    assert (first[-1]["text"], first[-1]["vowel"]) == (",", "pau")
    assert body["accent_phrases"][-1]["is_interrogative"] is True


def test_a_closed_consonant_and_a_whispered_vowel_are_named_as_clients_know_them(
    engine: JapaneseEngine,
) -> None:
    phrases = engine.read_phrases("切手です")
    (phrase,) = query_of(phrases, "切手です").accent_phrases

    assert phrases_of([phrase]) == phrases
    assert [mora.vowel for mora in phrase.moras] == ["i", "cl", "e", "e", "U"]


def test_a_query_of_voicevox_has_its_pauses_beside_the_phrases() -> None:
    pause = {"text": "、", "vowel": "pau", "vowel_length": 0.3, "pitch": 0}
    mora = {"text": "ア", "vowel": "a", "vowel_length": 0.1, "pitch": 5.5}
    body = {"moras": [mora], "accent": 1, "pause_mora": pause, "is_interrogative": True}

    (phrase,) = phrases_of([AccentPhraseBody.model_validate(body)])

    assert [mora.kana for mora in phrase.morae] == ["ア", "?", ","]


def test_scales_reach_the_voice(engine: JapaneseEngine, query: AudioQuery) -> None:
    usual = heard(engine, query)

    assert len(heard(engine, changed(query, speedScale=2.0))) < 0.6 * len(usual)
    assert np.abs(heard(engine, changed(query, volumeScale=0.5))).max() == pytest.approx(
        np.abs(usual).max() / 2, rel=0.05
    )
    longer = heard(engine, changed(query, pauseLengthScale=3.0))
    assert (len(longer) - len(usual)) / RATE == pytest.approx(0.6, abs=0.02)
    after = heard(engine, changed(query, postPhonemeLength=1.1))
    assert len(after) - len(usual) == RATE


@pytest.mark.parametrize(
    "wrong",
    [
        {"speedScale": float("nan")},
        {"pitchScale": float("inf")},
        {"volumeScale": 1e308},
        {"accent_phrases": [{"moras": [MORA | {"pitch": 1e308}], "accent": 1}]},
        {"outputSamplingRate": 10**9},
        {"accent_phrases": [{"moras": [], "accent": 1}]},
        {"accent_phrases": [{"moras": [{"text": "ア", "vowel": "a"}], "accent": 1}]},
        {"accent_phrases": [{"moras": [MORA | {"text": "漢"}], "accent": 1}]},
        {"accent_phrases": [{"moras": [MORA], "accent": 2}]},
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: AudioQuery, wrong: Any) -> None:
    with pytest.raises(ValidationError):
        changed(query, **wrong)


def test_a_query_needs_only_fields_that_voicevox_sends(query: AudioQuery) -> None:
    body = query.model_dump(by_alias=True)
    for field in ("kana", "tempoDynamicsScale", "pauseLength", "pauseLengthScale"):
        del body[field]

    assert AudioQuery.model_validate(body).tempo_dynamics_scale == 1.0


def test_a_query_counts_as_what_it_speaks_whatever_its_text_says(query: AudioQuery) -> None:
    phrase = query.model_dump(by_alias=True)["accent_phrases"][0]
    long = [phrase | {"moras": phrase["moras"][:1] * 387, "accent": 1}]

    assert characters_of(changed(query, accent_phrases=long, kana="あ")) == 387
    assert characters_of(changed(query, accent_phrases=long, kana=None)) == 387
    assert characters_of(changed(query, kana="x" * 500)) == 500
    pause = phrase["moras"][0] | {"text": "、", "consonant": None, "vowel": "pau"}
    paused = [phrase | {"pause_mora": pause}] * 10
    expected = 10 * (len(phrase["moras"]) + 1)
    assert characters_of(changed(query, accent_phrases=paused, kana="")) == expected


class Clairvoyant:
    """Estimates a time that no other engine does."""

    def __init__(self, engine: JapaneseEngine) -> None:
        self.read_phrases = engine.read_phrases

    def estimate(self, text: str, options: SpeechOptions) -> float:
        return 1_000.0 + len(text) / options.speed


def test_the_engine_estimates_a_query_that_nobody_has_changed(
    engine: JapaneseEngine, query: AudioQuery
) -> None:
    voice: Any = Clairvoyant(engine)
    shorter = changed(query, accent_phrases=query.model_dump()["accent_phrases"][:1])

    assert estimate(voice, changed(query, speedScale=2.0), 0) == 1_000 + len(TEXT) / 2
    assert estimate(voice, shorter, 0) < 2
    assert 1 < estimate(voice, changed(query, kana=None), 0) < 3


def test_morae_and_accents_are_read() -> None:
    first, second = parse_kana("ヨ'オ、_シュクダ'イ？")

    assert ([mora.kana for mora in first.morae], first.accent) == (["ヨ", "オ", ","], 1)
    assert [mora.kana for mora in second.morae] == ["シュ", "ク", "ダ", "イ", "?"]
    assert (second.accent, second.is_question) == (3, True)
    assert [mora.is_devoiced for mora in second.morae[:2]] == [True, False]


@pytest.mark.parametrize(
    ("kana", "code", "arguments"),
    [
        ("カンジ漢'", KanaErrorCode.UNKNOWN_TEXT, {"text": "カンジ漢"}),
        ("ア_'", KanaErrorCode.UNKNOWN_TEXT, {"text": "ア_"}),
        ("'ア", KanaErrorCode.ACCENT_TOP, {"text": "'ア"}),
        ("ア'イ'", KanaErrorCode.ACCENT_TWICE, {"text": "ア'イ'"}),
        ("アイ", KanaErrorCode.ACCENT_NOTFOUND, {"text": "アイ"}),
        ("ア'//イ'", KanaErrorCode.EMPTY_PHRASE, {"position": "2"}),
        ("ア？イ'", KanaErrorCode.INTERROGATION_MARK_NOT_AT_END, {"text": "ア？イ'"}),
    ],
)
def test_errors_are_named_as_in_voicevox(
    kana: str, code: KanaErrorCode, arguments: dict[str, str]
) -> None:
    with pytest.raises(KanaError) as caught:
        parse_kana(kana)

    assert (caught.value.code, caught.value.arguments) == (code, arguments)
    assert str(caught.value)


@given(st.text(alphabet="アャンッー'_/、？漢", max_size=20))
@settings(max_examples=30)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(KanaError):
        parse_kana(text)
