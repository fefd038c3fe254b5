import time
from pathlib import Path

import pytest

from shared.speech.engines.kokoro import SpokenLanguage, read_romance_language
from shared.speech.text import english_form, spoken_form
from shared.speech.text.languages import ROMANCE

DATA = Path(__file__).parents[2] / "data/text"
LANGUAGES = {
    "en": SpokenLanguage(english_form.write_out, str),
    "ja": SpokenLanguage(spoken_form.write_out, str),
    **{language: read_romance_language(language) for language in ROMANCE},
}


def cases(kind: str) -> list[tuple[str, str, str]]:
    return [
        (file.stem[-2:], *line.split("\t"))  # type: ignore[misc] # a text and what is expected
        for file in DATA.glob(f"{kind}_*.tsv")
        for line in file.read_text("utf-8").splitlines()
        if not line.startswith("# ")
    ]


@pytest.mark.parametrize(("language", "text", "spoken"), cases("readings"))
def test_numbers_and_signs_are_written_as_they_are_said(
    language: str, text: str, spoken: str
) -> None:
    assert LANGUAGES[language].write_out(text) == spoken


@pytest.mark.parametrize(("language", "text", "symbols"), cases("symbols"))
def test_letters_and_stress_are_those_of_the_language(
    language: str, text: str, symbols: str
) -> None:
    reader = LANGUAGES[language]

    assert reader.symbols(reader.write_out(text)) == symbols


TOO_LONG = ("1" * 2_000, "1." * 1_000, "a" * 2_000, "1,234" * 400, "1 000 " * 333, "€1" * 1_000)


@pytest.mark.parametrize("language", ["en", *ROMANCE])
@pytest.mark.parametrize("text", [*TOO_LONG, "27/11/" * 333, "1/2 " * 500, "5 €-" * 500])
def test_no_text_takes_long_to_write_out(language: str, text: str) -> None:
    begun = time.process_time()
    LANGUAGES[language].symbols(LANGUAGES[language].write_out(text))

    assert time.process_time() - begun < 1.0
