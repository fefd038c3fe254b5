import pytest

from training.phones import ARPABET, PHONE_INDEX, RUSSIAN, Blend, blends, from_ipa, from_table


def names(symbol: str) -> list[str]:
    return [blend.phone for blend in from_ipa(symbol)]


def test_an_affricate_is_one_sound() -> None:
    assert names("tʃ") == ["ch"]


def test_a_diphthong_is_two_sounds() -> None:
    assert names("aɪ") == ["a", "i"]


def test_a_palatalised_consonant_becomes_the_japanese_palatal() -> None:
    assert names("nʲ") == ["ny"]


def test_a_nasal_vowel_is_followed_by_the_moraic_nasal_however_it_is_written() -> None:
    assert names("ɔ̃") == names("ɔ\u0303") == ["o", "N"]


def test_length_marks_are_ignored() -> None:
    assert from_ipa("ɜː") == from_ipa("ɜ")


def test_a_symbol_that_is_not_a_speech_sound_is_refused() -> None:
    with pytest.raises(KeyError):
        from_ipa("Я")


def test_a_vowel_that_japanese_lacks_lies_between_two_that_it_has() -> None:
    assert blends("ae") == [Blend("a", "e", 0.45)]


def test_stress_marks_of_a_phone_set_are_ignored() -> None:
    assert from_table("a1", {"a": "a"}) == [Blend.pure("a")]


@pytest.mark.parametrize("table", [ARPABET, RUSSIAN])
def test_every_phone_of_a_table_is_one_that_the_target_has(table: dict[str, str]) -> None:
    found = [blend for value in table.values() for blend in blends(value)]
    assert {b.phone for b in found} | {b.other for b in found} <= set(PHONE_INDEX)
