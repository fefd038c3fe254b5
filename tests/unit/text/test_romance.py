import time
from pathlib import Path

import pytest

from shared.speech.engines.kokoro import SpokenLanguage, read_romance_language

DATA = Path(__file__).parents[2] / "data/text"
LANGUAGES = {language: read_romance_language(language) for language in ("es", "it")}


def cases(kind: str) -> list[tuple[str, str, str]]:
    return [
        (language, *line.split("\t"))  # type: ignore[misc] # a text and what is expected
        for language in LANGUAGES
        for line in (DATA / f"{kind}_{language}.tsv").read_text("utf-8").splitlines()
        if not line.startswith("# ")
    ]


@pytest.mark.parametrize(("language", "text", "spoken"), cases("readings"))
def test_numbers_and_signs_are_written_in_words(language: str, text: str, spoken: str) -> None:
    assert LANGUAGES[language].write_out(text) == spoken


@pytest.mark.parametrize(("language", "text", "symbols"), cases("symbols"))
def test_letters_and_stress_are_those_of_the_language(
    language: str, text: str, symbols: str
) -> None:
    reader = LANGUAGES[language]

    assert reader.symbols(reader.write_out(text)) == symbols


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
@pytest.mark.parametrize(
    "text", ["1" * 2_000, "1." * 1_000, "a" * 2_000, "1 000 " * 333, "27/11/" * 333, "€1" * 1_000]
)
def test_no_text_takes_long_to_write_out(language: SpokenLanguage, text: str) -> None:
    begun = time.process_time()
    language.symbols(language.write_out(text))

    assert time.process_time() - begun < 1.0
