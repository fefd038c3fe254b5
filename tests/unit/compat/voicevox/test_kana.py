from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.compat.voicevox.queries.kana import KanaError, KanaErrorCode, parse_kana, write_kana
from speech.text.normalisation import normalise
from speech.text.phones.accents import accent_phrases
from speech.text.reading import Reader

KANA = [
    "コンニチワ'",
    "ディ'イプ/ラ'アニング",
    "ア'、キャ'ット？",
    "_スキデ'_ス",
    "ト'オキョオ/エ'キ、デ'_ス",
]


@pytest.mark.parametrize("kana", KANA)
def test_a_parsed_reading_is_written_in_the_same_way(kana: str) -> None:
    assert write_kana(parse_kana(kana)) == kana


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
        ("_ン'", KanaErrorCode.UNKNOWN_TEXT, {"text": "_ン"}),
        ("ア_'", KanaErrorCode.UNKNOWN_TEXT, {"text": "ア_"}),
        ("'ア", KanaErrorCode.ACCENT_TOP, {"text": "'ア"}),
        ("ア'イ'", KanaErrorCode.ACCENT_TWICE, {"text": "ア'イ'"}),
        ("アイ", KanaErrorCode.ACCENT_NOTFOUND, {"text": "アイ"}),
        ("", KanaErrorCode.EMPTY_PHRASE, {"position": "1"}),
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
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        phrases = parse_kana(text)
    except KanaError:
        return
    assert parse_kana(write_kana(phrases)) == phrases or text.endswith("、")


def test_a_text_is_written_as_kana() -> None:
    phrases = accent_phrases(Reader().read(normalise("お菓子が好きですか？はい。")))

    assert write_kana(phrases) == "オカ'シガ/_スキ'デ_スカ？、ハ'イ"
