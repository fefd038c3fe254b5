"""Pronunciations from a small lexicon; the real one is read where its packages are installed."""

import numpy as np
import pytest

from shared.speech.engines.kokoro_packages import KokoroPackages
from shared.speech.text.english_phones import Entry, GuessingNetwork, Pronunciation

LEXICON: dict[str, Entry] = {
    "cat": "kˈæt",
    "bus": "bˈʌs",
    "apple": "ˈæpᵊl",
    "want": "wˈɑnt",
    "walk": "wˈɔk",
    "he": "hi",
    "need": "nˈid",
    "city": "sˈɪɾi",
    "make": "mˈAk",
    "stop": "stˈɑp",
    "git": "ɡˈɪt",
    "it": "ɪt",
    "hub": "hˈʌb",
    "cafe": "kæfˈA",
    "I": "ˈI",
    "B": "bˈi",
    "F": "ˈɛf",
    "A": "ˈA",
    "use": {"DEFAULT": "jˈuz", "NOUN": "jˈus"},
    "live": {"DEFAULT": "lˈIv", "VERB": "lˈɪv"},
    "record": {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"},
    "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd", "VBN": "ɹˈɛd", "ADJ": "ɹˈɛd", "VBP": "ɹˈɛd"},
    "close": {"DEFAULT": "klˈOs", "VERB": "klˈOz", "NOUN": "klˈOz"},
    "this": {"DEFAULT": "ðɪs", "None": "ðˈɪs"},
}
SILENT = GuessingNetwork(
    {
        **{f"{part}_emb": np.zeros((80, 2), np.float32) for part in ("enc", "dec")},
        **{f"{part}_w_ih": np.zeros((6, 2), np.float32) for part in ("enc", "dec")},
        **{f"{part}_w_hh": np.zeros((6, 2), np.float32) for part in ("enc", "dec")},
        **{f"{part}_b_ih": np.zeros(6, np.float32) for part in ("enc", "dec")},
        **{f"{part}_b_hh": np.zeros(6, np.float32) for part in ("enc", "dec")},
        "fc_w": np.zeros((74, 2), np.float32),
        "fc_b": np.eye(74, dtype=np.float32)[3],  # the end, at once
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def said() -> Pronunciation:
    return Pronunciation(LEXICON, SILENT)


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("cats, buses, apple's.", "kˈæts, bˈʌsᵻz, ˈæpᵊlz."),
        ("cities wanted walked needed", "sˈɪTiz wˈɑntᵻd wˈɔkt nˈidᵻd"),
        ("making stopped wanting", "mˈAkɪŋ stˈɑpt wˈɑntɪŋ"),
        ("the cat the apple a cat", "ðə kˈæt ði ˈæpᵊl ɐ kˈæt"),
        ("to walk to it. I want to.", "tə wˈɔk tʊ ɪt. ˌI wˈɑnt tˈu."),
        ("He", "hˌi"),
        ("this cat, this.", "ðɪs kˈæt, ðˈɪs."),
        ("FBI", "ˌɛfbˌiˈI"),
        ("GitHub githubs", "ɡˈɪthˌʌb ɡˈɪthˌʌbz"),
        ("Café", "kæfˈA"),
        ("...!", "...!"),
        ("qzrt", ""),
    ],
)
def test_words_are_looked_up_as_they_are_by_their_stem_or_by_their_parts(
    text: str, symbols: str, said: Pronunciation
) -> None:
    assert said.symbols(text) == symbols


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("a record", "ɐ ɹˈɛkəɹd"),
        ("I record it", "ˌI ɹəkˈɔɹd ɪt"),
        ("Record the cat", "ɹəkˈɔɹd ðə kˈæt"),
        ("he live", "hi lˈɪv"),
        ("live cats", "lˈIv kˈæts"),
        ("the use", "ðə jˈus"),
        ("cats use it", "kˈæts jˈuz ɪt"),
        ("he read it", "hi ɹˈɛd ɪt"),
        ("to read it", "tə ɹˈid ɪt"),
        ("Close the", "klˈOz ðə"),
        ("he lived", "hi lˈɪvd"),
        ("closing this", "klˈOzɪŋ ðˈɪs"),
        ("the read", "ðə ɹˈid"),
    ],
)
def test_a_word_with_several_pronunciations_is_read_by_the_words_around_it(
    text: str, symbols: str, said: Pronunciation
) -> None:
    assert said.symbols(text) == symbols


@pytest.mark.skipif(
    not KokoroPackages().is_complete(), reason="needs functions/convert/requirements-kokoro.txt"
)
def test_the_real_lexicon_and_network_read_all_words_with_symbols_that_kokoro_knows() -> None:
    packages = KokoroPackages()
    said = packages.read_pronunciation()
    text = "Soldiers had to desert Kubernetes, Miz Nguyen's naïve WiFi, 'eighties' rock'n'roll."

    symbols = said.symbols(text)

    assert set(symbols) <= set(packages.read_symbols())
    assert said.symbols("ribeye zendaya") == "ɹˈɪbˌI zAndˈAə"
    assert "dəzˈɜɹt" in symbols
    assert symbols.endswith(".")
    assert said.symbols("x" + "'s" * 2000)
