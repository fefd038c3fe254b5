"""The interface of engines that speak text, and their options."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.signal.sound import Samples
from shared.speech.text.accents import AccentPhrase
from shared.speech.text.languages import LANGUAGES, Division, divide, language_code
from shared.voices.voice import Speaking

LONGEST_TEXT = 2_000
_MOST_MORAE = 125
_KANA = re.compile("[\u3041-\u30ff\uff66-\uff9f]")
_SENTENCE_ENDS = frozenset(".!?")


class TextErrorCode(StrEnum):
    """Why a text cannot be spoken. The codes are for programs and keep their meaning."""

    NOTHING_TO_SAY = "nothing_to_say"
    TEXT_TOO_LONG = "text_too_long"
    TEXT_UNREADABLE = "text_unreadable"
    UNKNOWN_STYLE = "unknown_style"


class TextError(ValueError):
    """A text or option that cannot be spoken: a code for programs, a sentence without the text."""

    def __init__(self, code: TextErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class SpeechOptions(Speaking):
    """Options of spoken text: those of every visitor, and those of other programs.

    `tempo_dynamics` is how much the tempo changes within a sentence, 1 for the character's own way.
    Silences are in seconds. The same seed (not negative) gives the same samples. `whole` asks for
    each breath in one piece.
    """

    tempo_dynamics: float = 1.0
    silence_before: float = 0.1
    silence_after: float = 0.1
    seed: int = 0
    whole: bool = False

    def around(self, seconds: float, speed: float) -> float:
        """Estimate the seconds of all that is heard from those of speech at usual speed."""
        return self.silence_before + seconds / speed + self.silence_after


class TextEngine(Protocol):
    """Speaks text as a character; one instance serves any number of threads at once."""

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""

    @property
    def languages(self) -> Sequence[str]:
        """Codes of the languages, the usual one first; without `en` it is read as katakana."""

    def divide(self, text: str, options: SpeechOptions) -> Division:
        """Divide a text of any length by its languages, after clients' own words were put in."""

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate the seconds of `speak`, in a hundredth of its time; raises the same errors."""

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text piece by piece, each as soon as it is ready.

        The pieces are mono float32 within -1..1, to be played one after the other. Raises TextError
        before the first piece if the text says nothing or has more than LONGEST_TEXT characters, or
        if the character has no such style.
        """


class PhraseEngine(TextEngine, Protocol):
    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; TextError if it is too long."""

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases piece by piece, or only the silences around them if there are none.

        Unchanged phrases sound like `text`, from which they were made. Raises TextError as `speak`
        does.
        """


def sentences_of(phrases: Sequence[AccentPhrase]) -> list[list[AccentPhrase]]:
    """Divide accent phrases into sentences, after the signs that end them.

    A sentence of more than 125 morae is cut between phrases, and a longer phrase anywhere: other
    visitors wait while a sentence is spoken.
    """
    sentences: list[list[AccentPhrase]] = [[]]
    morae = 0
    for phrase in (part for whole in phrases for part in _parts(whole)):
        if sentences[-1] and morae + len(phrase.morae) > _MOST_MORAE:
            sentences.append([])
            morae = 0
        sentences[-1].append(phrase)
        morae += len(phrase.morae)
        if any(mora.kana in _SENTENCE_ENDS for mora in phrase.morae):
            sentences.append([])
            morae = 0
    return [sentence for sentence in sentences if sentence]


def _parts(phrase: AccentPhrase) -> Iterator[AccentPhrase]:
    for begin in range(0, len(phrase.morae), _MOST_MORAE):
        morae = phrase.morae[begin : begin + _MOST_MORAE]
        accent = phrase.accent - begin
        yield AccentPhrase(morae, accent if 1 <= accent <= len(morae) else len(morae))


def check_length(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise TextError(
            TextErrorCode.TEXT_TOO_LONG,
            f"The text has {len(text)} characters; at most {LONGEST_TEXT} are spoken at once. Send"
            " it in parts.",
        )


def text_numbers(manifest: CharacterManifest, **usual: float) -> dict[str, float]:
    """Read the numbers that `text.settings` may set; raises BundleError for all other settings."""
    said = manifest.text.settings if manifest.text else {}
    for name, value in said.items():
        if name not in usual or isinstance(value, bool) or not isinstance(value, int | float):
            raise BundleError(
                f"{MANIFEST}: field {quoted(f'text.settings.{name}')}: expected a number, of"
                f" {' or '.join(usual)} alone, found {quoted(value)}."
            )
        usual[name] = float(value)
    return usual


def refuse_styles(options: SpeechOptions) -> None:
    if options.style:
        raise TextError(
            TextErrorCode.UNKNOWN_STYLE, f"The voice has one style, 0; found {options.style}."
        )


def divide_as_asked(text: str, languages: Sequence[str], options: SpeechOptions) -> Division:
    return divide(text, languages, _language_of(options), options.english_words)


def divide_text(engine: TextEngine, text: str, options: SpeechOptions) -> Division:
    """Divide a text by its languages, for an engine that is to speak it.

    Raises TextError if the text is too long, or nothing of it can be read. What else is not read is
    in the division's `unread`, for the answer to the client.
    """
    check_length(text)
    language, languages = _language_of(options), engine.languages
    if language is not None and language not in languages:
        raise TextError(
            TextErrorCode.TEXT_UNREADABLE,
            f"The voice cannot read the language {quoted(options.language)}; it reads"
            f" {_names(languages)}.",
        )
    division = engine.divide(text, options)
    if division.unread and not any(map(str.isalnum, division.text)):
        raise _unreadable(division.unread_names, languages)
    return division


def _language_of(options: SpeechOptions) -> str | None:
    return None if options.language is None else language_code(options.language)


def nothing_to_say(text: str, languages: Sequence[str]) -> TextError:
    if any(character.isalpha() and not _KANA.match(character) for character in text):
        return _unreadable("a script", languages)
    return TextError(
        TextErrorCode.NOTHING_TO_SAY,
        f"The text holds nothing that can be spoken; write at least one word in"
        f" {_names(languages)}.",
    )


def _unreadable(what: str, languages: Sequence[str]) -> TextError:
    return TextError(
        TextErrorCode.TEXT_UNREADABLE,
        f"The text is in {what}, which the voice cannot read; write it in {_names(languages)}.",
    )


def _names(languages: Sequence[str]) -> str:
    *first, last = (LANGUAGES[language] for language in languages)
    return f"{', '.join(first)} or {last}" if first else last
