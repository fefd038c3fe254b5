"""Sentences as a fuzzed target."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from shared.speech.engines.kokoro import SpokenLanguage, read_romance_language
from shared.speech.engines.text_interface import LONGEST_TEXT
from shared.speech.text import english_form
from shared.speech.text.accents import accent_phrases, words_of_phones
from shared.speech.text.front_end import FrontEnd, read_sentences, split_sentences
from shared.speech.text.languages import ROMANCE
from shared.speech.text.normalisation import normalise
from shared.speech.text.phonemes import phonemes, tones_of_phones
from shared.speech.text.spoken_form import write_out
from tests.robustness.fuzz.harness import UncleanError
from tests.robustness.fuzz.mutation import mutated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXTS: Final = Path(__file__).parents[2] / "data" / "text" / "sentences.json"


def texts() -> st.SearchStrategy[bytes]:
    """Texts, as visitors type them: sentences with damage, and any characters."""
    rows = json.loads(TEXTS.read_text("utf-8"))
    seeds = {row["text"][:40]: row["text"].encode() for row in rows if row["text"]}
    return st.one_of(mutated(seeds, most=6), st.text(max_size=400).map(str.encode))


@contextmanager
def reading_texts() -> Iterator[Callable[[bytes], str]]:
    """Find what the engines would say, without saying it."""
    front_end = FrontEnd()
    romance = [read_romance_language(each) for each in ROMANCE]
    _read_text(front_end, romance, "四月一日にDiscordで会いましょう。".encode())
    yield partial(_read_text, front_end, romance)


def _read_text(front_end: FrontEnd, romance: list[SpokenLanguage], data: bytes) -> str:
    text = data.decode(errors="ignore")[:LONGEST_TEXT]
    for language in [*romance, SpokenLanguage(english_form.write_out, str)]:
        said = language.symbols(language.write_out(text))
        if re.search("[0-9]", said):
            raise UncleanError(f"digits that are not read: {said!r}"[:300])
    pieces = read_sentences(front_end, map(normalise, split_sentences(text)))
    spoken = [phonemes(reading) for reading in pieces]
    for each in spoken:
        if not len(each.phones) == len(each.tones) == sum(each.word2ph):
            raise UncleanError(f"phones that do not fit together: {each!r}"[:300])
    sentences = split_sentences(front_end.write(write_out(text)))
    readings = list(read_sentences(front_end, sentences))
    for reading in readings:
        if len(list(words_of_phones(reading))) != len(tones_of_phones(reading.labels)):
            raise UncleanError(f"phones without a word: {reading!r}"[:300])
    phrases = [accent_phrases(reading) for reading in readings]
    has_sound = any(each.has_sound for each in spoken)
    return "result" if has_sound or any(phrases) else "nothing to say"
