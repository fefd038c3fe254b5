"""Typed sentences as characters speak them, judged by words and naturalness.

Kokoro speaks each sentence once, and every character converts that where the services do so. Both
the sentence and what is understood of it are written out in words, or in the kana that Japanese is
read as, before they are compared: a recogniser writes `$3.50` or `three dollars and
fifty cents` as it likes, and kanji or kana.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from shared.speech.engines import kokoro
from shared.speech.engines.interface import TextEngineWrapper
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.engines.text_interface import SpeechOptions, TextEngine
from shared.speech.engines.two_step_speech import TwoStepSpeech
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.samples import resample
from shared.speech.signal.sound import Samples
from shared.speech.text import english_form, spoken_form
from shared.speech.text.front_end import TextReader
from shared.speech.text.languages import ENGLISH, JAPANESE, LANGUAGES
from tools.training.decoder.features import RATE
from tools.training.judges.judgement import ErrorRate, Key, Row, compare
from tools.training.judges.panel import Panel

EXPLANATION: Final = (
    "Wrong: words, and kana of Japanese, all written out, that Whisper base understands"
    " differently. Distill-MOS and DNSMOS guess listeners' marks from 1 to 5."
)
_TEXTS: Final = Path(__file__).parents[1] / "sources" / "texts"
_DIGITS: Final = frozenset("0123456789")
_PARTED: Final = re.compile(r"\d+(?:(?::|[ -](?=\d{3}))\d+)+")  # times and telephone numbers


class RememberedSpeech(TextEngineWrapper):
    """Speaks each text once, for all characters that convert it."""

    _said: tuple[str, SpeechOptions, Sequence[Samples]] | None = None

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        if self._said is None or self._said[:2] != (text, options):
            self._said = text, options, tuple(super().speak(text, options))
        return iter(self._said[2])


def judge_typed(
    bundles: Sequence[Path],
    sentences: Mapping[str, Sequence[str]],
    panel: Panel,
    report: Callable[[int, int], None],
) -> dict[Key, Row]:
    """Judge sentences by their language; a row for each speaker, with and without digits."""
    settings = SessionSettings(threads=1)
    speaker = kokoro.built_in(settings)
    remembered = RememberedSpeech(lambda: speaker)
    cast: dict[str, TextEngine] = {}
    text_engines: dict[str, str | None] = {}
    for bundle in bundles:
        character = load_character(bundle, ENGINES)
        manifest = character.manifest
        text_engines[manifest.id] = manifest.text.engine if manifest.text else None
        if text_engines[manifest.id] == "kokoro":
            cast[manifest.id] = kokoro.build(manifest, settings)
        else:
            engine = build_engine(character, settings)
            cast[manifest.id] = TwoStepSpeech(remembered, kokoro.MEDIAN_HZ, engine, manifest)
    rows: dict[Key, Row] = {}
    lines = [(language, line) for language, some in sentences.items() for line in some]
    for number, (language, sentence) in enumerate(lines, start=1):
        group = f"{LANGUAGES[language]}, {'numbers' if _DIGITS & set(sentence) else 'words'}"
        for name, speaking in cast.items():
            if language == JAPANESE and text_engines[name] == "japanese":
                continue
            pieces = speaking.speak(sentence, SpeechOptions(language=language))
            wave = resample(np.concatenate(list(pieces)), speaking.sample_rate, RATE)
            row = rows.setdefault(("typed", group, name), Row())
            if panel.recogniser is not None:
                understood = panel.recogniser.understand(wave, language)
                row.words += words_wrong(sentence, understood, language, settings.front_end)
            for judge in panel.naturalness:
                row.add(**judge.judge(wave))
        report(number, len(lines))
    return dict(sorted(rows.items()))


def words_wrong(sentence: str, understood: str, language: str, front_end: TextReader) -> ErrorRate:
    for number in _PARTED.findall(sentence):
        digits = "[ :.-]?".join(re.findall(r"\d", number))
        understood = re.sub(rf"(?<!\d){digits}(?!\d)", number, understood)
    if language == ENGLISH:
        sentence, understood = map(english_form.write_out, (sentence, understood))
    elif language == JAPANESE:
        sentence, understood = (read_kana(text, front_end) for text in (sentence, understood))
    else:
        write_out = kokoro.read_romance_language(language).write_out
        sentence, understood = map(write_out, (sentence, understood))
    return compare(sentence, understood, language)


def read_kana(text: str, front_end: TextReader) -> str:
    words = front_end.read(front_end.write(spoken_form.write_out(text))).words
    return "".join(word.reading for word in words)


def read_sentences() -> dict[str, list[str]]:
    files = {each: f"{'judge' if each == JAPANESE else 'typed'}_{each}.txt" for each in LANGUAGES}
    return {each: (_TEXTS / file).read_text("utf-8").splitlines() for each, file in files.items()}
