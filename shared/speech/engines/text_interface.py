"""The interface of engines that speak text, and the options that they take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.speech.signal.sound import Samples
from shared.speech.text.accents import AccentPhrase
from shared.voices.voice import Speaking

LONGEST_TEXT = 2_000
_MOST_MORAE = 125
_SENTENCE_ENDS = frozenset(".!?")


class TextErrorCode(StrEnum):
    """Why a text cannot be spoken. The codes are for programs and keep their meaning."""

    NOTHING_TO_SAY = "nothing_to_say"
    TEXT_TOO_LONG = "text_too_long"
    TEXT_UNREADABLE = "text_unreadable"
    UNKNOWN_STYLE = "unknown_style"


class TextError(ValueError):
    """A text, or what is asked for it, that cannot be spoken.

    Attributes:
        code: the stable code for programs.
        message: one sentence for people, without the text.
    """

    def __init__(self, code: TextErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class SpeechOptions(Speaking):
    """How a text is to be spoken: what every visitor may ask for, and what other programs ask for.

    Attributes:
        tempo_dynamics: how much the tempo changes within a sentence, where the voice can; 1 is its
            own way.
        silence_before: silence before the first sound, in seconds.
        silence_after: silence after the last sound, in seconds.
        seed: of the chance in the voice, not negative; the same seed gives the same samples.
    """

    tempo_dynamics: float = 1.0
    silence_before: float = 0.1
    silence_after: float = 0.1
    seed: int = 0

    def around(self, seconds: float, speed: float) -> float:
        """Estimate the seconds of all that is heard from those of speech at usual speed."""
        return self.silence_before + seconds / speed + self.silence_after


class TextEngine(Protocol):
    """Speaks text in a character's voice; one instance serves any number of threads at once."""

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is, in seconds, without speaking any of it.

        The text is read for it, which takes about a hundredth of the time of speaking it.

        Args:
            text: of at most LONGEST_TEXT characters.
            options: what is asked for.

        Returns:
            The seconds of all pieces of `speak`, silences included.

        Raises:
            TextError: as `speak` raises it.
        """

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text, piece by piece, each as soon as it is ready.

        Args:
            text: of at most LONGEST_TEXT characters.
            options: what is asked for.

        Returns:
            Pieces of mono audio, float32, within -1..1, to be played one after the other.

        Raises:
            TextError: the text says nothing or is too long, or the voice has no such style; before
                the first piece.
        """


class PhraseEngine(TextEngine, Protocol):
    """Speaks text whose reading and accents others may have changed."""

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text as the voice would speak it; none if it says nothing.

        Raises:
            TextError: the text is too long.
        """

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases, piece by piece; see TextEngine.

        Args:
            phrases: what is said; nothing but the silences around it if there are none.
            text: what they were made from, or None. Phrases that nobody changed sound like it.
            options: what is asked for.

        Raises:
            TextError: the text is too long, or the voice has no such style; before the first piece.
        """


def sentences_of(phrases: Sequence[AccentPhrase]) -> list[list[AccentPhrase]]:
    """Divide accent phrases into sentences, after the signs that end them.

    A sentence of more than 125 morae is cut between phrases, and a longer phrase wherever it is too
    long: others wait until a sentence is spoken.
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
    """Cut a phrase that is too long; a part without the accent is flat."""
    for begin in range(0, len(phrase.morae), _MOST_MORAE):
        morae = phrase.morae[begin : begin + _MOST_MORAE]
        accent = phrase.accent - begin
        yield AccentPhrase(morae, accent if 1 <= accent <= len(morae) else len(morae))


def check_length(text: str) -> None:
    """Refuse a text that is too long.

    Raises:
        TextError: it has more than LONGEST_TEXT characters.
    """
    if len(text) > LONGEST_TEXT:
        raise TextError(
            TextErrorCode.TEXT_TOO_LONG,
            f"The text has {len(text)} characters; at most {LONGEST_TEXT} are spoken at once. Send"
            " it in parts.",
        )


def refuse_styles(options: SpeechOptions) -> None:
    """Refuse to speak in a style, for voices that have one alone.

    Raises:
        TextError: another style than 0 is asked for.
    """
    if options.style:
        raise TextError(
            TextErrorCode.UNKNOWN_STYLE, f"The voice has one style, 0; found {options.style}."
        )


def nothing_to_say(text: str) -> TextError:
    """Build the error of a text that holds nothing to speak."""
    if any(character.isalpha() and not _is_kana(character) for character in text):
        return TextError(
            TextErrorCode.TEXT_UNREADABLE,
            "The text is in a script that the voice cannot read; write it in Japanese.",
        )
    return TextError(
        TextErrorCode.NOTHING_TO_SAY,
        "The text holds nothing that can be spoken; write at least one word in Japanese.",
    )


def _is_kana(character: str) -> bool:
    return "\u3041" <= character <= "\u30ff" or "\uff66" <= character <= "\uff9f"
