"""Texts of any length as speech whose first sentence leaves while the next one is spoken."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.compat.speech.encoders import open_encoder
from functions.compat.speech.synthesis import Speech, too_long
from speech.engines.interface.marks import speak_marked
from speech.engines.interface.text_engine import LONGEST_TEXT, TextError, TextErrorCode
from speech.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from functions.compat.speech.formats import SoundFormat
    from functions.compat.speech.synthesis import SpeechLimits
    from functions.compat.speech.voices import TextVoice
    from speech.engines.interface.marks import Mark, MarkedPiece
    from speech.engines.interface.text_engine import SpeechOptions, TextEngine
    from speech.signal.arrays import Samples

_SENTENCE_SECONDS: Final = 0.45
"""The pause between two sentences at usual speed."""

_FAST_CHARACTER_SECONDS: Final = 0.08
_FAST_LETTER_SECONDS: Final = 0.03
"""How long a character of Japanese, or a letter of an alphabet, takes at least at usual speed."""

_FIRST_ALPHABETS_END: Final = "\u3040"


def speech_of(voice: TextVoice, text: str, options: SpeechOptions, sound: SoundFormat) -> Speech:
    """Return a text as something to be spoken.

    Args:
        voice: that speaks.
        text: of any length.
        options: how it is spoken; the style is the voice's.
        sound: the format of the answer.
    """
    begin = partial(speak_long, voice.engine, text, replace(options, style=voice.style))
    rate = voice.engine.sample_rate
    return Speech(begin, rate, partial(open_encoder, sound, rate, voice.character.text_marking))


def marked_speech_of(
    voice: TextVoice,
    text: str,
    options: SpeechOptions,
    sound: SoundFormat,
    note: Callable[[Mark], None],
) -> Speech:
    """Return a text as something to be spoken that tells when its words and phones begin.

    Args:
        voice: that speaks.
        text: of at most `LONGEST_TEXT` characters.
        options: how it is spoken; the style is the voice's.
        sound: the format of the answer.
        note: is told of each mark, in seconds from the first sample on, in the thread that speaks,
            before the sound in which it lies.
    """

    def begin() -> Iterator[Samples]:
        return _noting(
            speak_marked(voice.engine, text, replace(options, style=voice.style)),
            voice.engine.sample_rate,
            note,
        )

    return replace(speech_of(voice, text, options, sound), begin=begin)


def _noting(
    pieces: Iterator[MarkedPiece], sample_rate: int, note: Callable[[Mark], None]
) -> Iterator[Samples]:
    seconds = 0.0
    for piece in pieces:
        for mark in piece.marks:
            note(mark.later(seconds))
        yield piece.samples
        seconds += len(piece.samples) / sample_rate


def check_seconds(text: str, speed: float, limits: SpeechLimits) -> None:
    """Refuse a text that is too long at its speed before anything is spoken.

    Raises:
        TextError: even fast speech would take longer than the limit.
    """
    japanese = sum(each >= _FIRST_ALPHABETS_END for each in text if each.isalnum())
    letters = sum(map(str.isalnum, text)) - japanese
    seconds = japanese * _FAST_CHARACTER_SECONDS + letters * _FAST_LETTER_SECONDS
    if seconds / speed > limits.seconds:
        raise too_long(limits.seconds)


def speak_long(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[Samples]:
    """Speak a text of any length, piece by piece; see TextEngine.

    Raises:
        TextError: see TextEngine; before the first piece.
    """
    first, *others = _parts(text)
    if not others:
        return engine.speak(first, options)
    spoken = engine.speak(first, replace(options, silence_after=0.0))
    return _go_on(engine, spoken, others, options)


def _go_on(
    engine: TextEngine, spoken: Iterator[Samples], others: list[str], options: SpeechOptions
) -> Iterator[Samples]:
    yield from spoken
    pause = _SENTENCE_SECONDS * options.pauses / options.speed
    for number, part in enumerate(others, start=1):
        after = options.silence_after if number == len(others) else 0.0
        try:
            yield from engine.speak(
                part, replace(options, silence_before=pause, silence_after=after)
            )
        except TextError as error:
            # A part that is only signs says nothing; the parts around it still do.
            if error.code is not TextErrorCode.NOTHING_TO_SAY:
                raise


def _parts(text: str) -> list[str]:
    """Cut a text after sentences into parts that an engine takes."""
    if len(text) <= LONGEST_TEXT:
        return [text]
    parts, begin, end = [], 0, 0
    for sentence in split_sentences(text):
        after = text.index(sentence, end) + len(sentence)
        if after - begin > LONGEST_TEXT:
            parts.append(text[begin:end])
            begin = end
        end = after
    return [*parts, text[begin:]]
