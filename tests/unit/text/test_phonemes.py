from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.speech.engines.style_bert_graphs import Vocabulary, VocabularyError, synthesis_inputs
from shared.speech.text.accents import words_of_phones
from shared.speech.text.front_end import Reader, Reading, Word
from shared.speech.text.normalisation import normalise
from shared.speech.text.phonemes import (
    IDS,
    KANA,
    SOUNDS,
    SYMBOLS,
    phonemes,
    split_morae,
    tones_of_phones,
)
from shared.speech.text.spoken_form import write_out
from tests.support.golden_speech import REFERENCE, SENTENCES, vocabulary

EVERYDAY_TEXTS = st.from_regex(
    r"((消費税は|約|から|A| )?[¥$€#〒+×~/:@]?[-−▲]?([0-9]{1,4}|[０-９]{1,3})(,[0-9]{3})?"
    r"([-./:月][0-9]{1,2}){0,2}(%|％|‰|円|℃|km|m²|人|つ|日|時)?(です。|まで|、|ー)?){1,3}",
    fullmatch=True,
)
"""Numbers as people write them."""


def test_symbols_and_morae_are_those_of_the_reference() -> None:
    morae = {kana: [sound.consonant, sound.vowel] for kana, sound in SOUNDS.items()}

    assert list(SYMBOLS) == REFERENCE["symbols"]
    assert morae == REFERENCE["mora_kata_to_phonemes"]
    assert {phone for sound in SOUNDS.values() for phone in sound.phones} <= IDS.keys()
    assert {KANA[SOUNDS[kana]] for kana in "アァオヲジヂズヅ"} == set("アオジズ")
    assert split_morae("シャッターー、ヴォ") == ["シャ", "ッ", "タ", "ー", "ー", "、", "ヴォ"]


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: str(sentence["index"]))
def test_a_sentence_is_read_as_by_the_reference(sentence: dict[str, Any], reader: Reader) -> None:
    normalised = normalise(sentence["text"])
    found = phonemes(reader.read(normalised))

    assert normalised == sentence["norm_text"]
    assert [word.text for word in found.words] == sentence["sep_text"]
    assert [word.reading for word in found.words] == sentence["sep_kata"]
    assert list(found.phones) == sentence["phones"]
    assert list(found.tones) == sentence["tones"]
    assert list(found.word2ph) == sentence["word2ph"]
    assert found.text == sentence["bert_text"]
    assert list(vocabulary().encode(found.text)) == sentence["bert_input_ids"]
    for suffix in ("", "_blank"):
        inputs = synthesis_inputs(found, add_blank=bool(suffix))
        assert list(inputs.phones) == sentence[f"phone_ids{suffix}"]
        assert list(inputs.tones) == sentence[f"tone_ids{suffix}"]
        assert list(inputs.languages) == sentence[f"language_ids{suffix}"]
        assert list(inputs.word2ph) == sentence[f"word2ph{suffix}"]


@pytest.mark.parametrize(
    ("words", "phones", "counts"),
    [
        pytest.param([("あ", "ア"), ("ーら", "ーラ")], "aara", [1, 2, 1], id="drawn from before"),
        pytest.param([("ーーア", "ーーア")], "--a", [1, 1, 1], id="nothing to draw"),
        pytest.param([("ッ", "ッ"), ("ーア", "ーア")], "q-a", [1, 1, 1], id="nothing to draw on"),
        pytest.param([("々々", "、"), ("。", "、")], "''.", [1, 1, 1], id="unreadable"),
        pytest.param([("ヽ", "ヽア")], "'a", [2], id="kana without a sound"),
        pytest.param([("☆", "、"), ("あ", "ア")], "a", [1], id="a word that vanishes"),
        pytest.param(
            [("３つ", "ミッツ"), ("％", "ア")],
            ["m", "i", "q", "ts", "u", "a"],
            [3, 2, 1],
            id="characters that no voice knows",
        ),
    ],
)
def test_unusual_words_have_phones_for_their_characters(
    words: list[tuple[str, str]], phones: Sequence[str], counts: list[int]
) -> None:
    found = phonemes(Reading(tuple(Word(*word, "名詞", chained=False) for word in words), ()))

    assert found.phones == ("_", *phones, "_")
    assert found.word2ph == (1, *counts, 1)


def test_tones_fall_on_their_phones_where_reading_and_labels_disagree(reader: Reader) -> None:
    agreeing = reader.read("橋を渡る")
    words = (Word("橋", "ハッシ", "名詞", chained=False), *agreeing.words[1:])

    found = phonemes(Reading(words, agreeing.labels))
    expected = phonemes(agreeing)

    assert found.phones[:6] == ("_", "h", "a", "q", "sh", "i")
    assert found.tones[6:] == expected.tones[5:]
    assert sum(found.word2ph) == len(found.phones)


def test_a_label_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a full-context label, found 'sil'"):
        tones_of_phones(["sil"])


@pytest.mark.parametrize("text", ["クヮルテット", "グヮム"])
def test_a_rare_mora_has_phones_that_voices_know(text: str, reader: Reader) -> None:
    found = phonemes(reader.read(normalise(text)))

    assert found.phones[1:4] in {("k", "w", "a"), ("g", "w", "a")}
    assert len(found.phones) == len(found.tones) == sum(found.word2ph)


@given(st.one_of(EVERYDAY_TEXTS, st.text(max_size=60)))
@example("消費税は10%です。")
@example("0円")
@example("値段は2.0です")
@example("電話は03-1234-5678です。")
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_text_has_phones_that_are_all_accounted_for_however_it_is_read(
    reader: Reader, text: str
) -> None:
    for written in (text, write_out(text), normalise(text)):
        reading = reader.read(written)

        found = phonemes(reading)
        owners = words_of_phones(reading)

        assert len(found.phones) == len(found.tones) == sum(found.word2ph)
        assert len(found.word2ph) == len(found.text) + 2
        assert set(found.phones) <= IDS.keys()
        assert set(found.tones) <= {0, 1}
        assert len(list(owners)) == len(tones_of_phones(reading.labels))


def test_a_vocabulary_is_read_from_one_token_a_line(tmp_path: Any) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(VocabularyError, match=r"vocab\.txt: expected a vocabulary in UTF-8"):
        Vocabulary.read(path)
    path.write_text("[PAD]\n[CLS]\n[SEP]\n[UNK]\nの\n", "utf-8")

    assert Vocabulary.read(path).encode("のＡ") == (1, 4, 3, 2)
    with pytest.raises(VocabularyError, match=r"expected the token \[CLS\], found none"):
        Vocabulary.of_tokens(["a"])
