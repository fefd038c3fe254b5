"""Texts of any length as speech whose first sentence leaves while the next one is spoken."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.compat.speech.encoders import open_encoder
from functions.compat.speech.synthesis import Speech
from speech.engines.interface.marks import speak_marked
from speech.engines.interface.text_engine import LONGEST_TEXT, TextError, TextErrorCode
from speech.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from functions.compat.speech.formats import SoundFormat
    from functions.compat.speech.voices import TextVoice
    from speech.engines.interface.marks import Mark, MarkedPiece
    from speech.engines.interface.text_engine import SpeechOptions, TextEngine
    from speech.signal.arrays import Samples

_SENTENCE_SECONDS: Final = 0.45
"""The pause between two sentences at usual speed."""

UNSAYABLE: Final = frozenset({TextErrorCode.NOTHING_TO_SAY, TextErrorCode.TEXT_UNREADABLE})
"""Why a part of a text is passed over: the parts around it still say something."""


def speech_of(voice: TextVoice, text: str, options: SpeechOptions, sound: SoundFormat) -> Speech:
    """Return a text as something to be spoken.

    Args:
        voice: that speaks.
        text: of any length.
        options: how it is spoken; the style is the voice's.
        sound: the format of the answer.
    """
    asked, rate = replace(options, style=voice.style), voice.engine.sample_rate
    return Speech(
        partial(speak_long, voice.engine, text, asked),
        rate,
        partial(open_encoder, sound, rate, voice.character.text_marking),
        partial(estimate_long, voice.engine, text, asked),
    )


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


def estimate_long(engine: TextEngine, text: str, options: SpeechOptions) -> float:
    """Estimate how long the speech of a text of any length is, in seconds; see TextEngine.

    Raises:
        TextError: none of it can be spoken.
    """
    estimates, refusals = [], []
    parts = _parts(text)
    for part in parts:
        try:
            estimates.append(engine.estimate(part, options))
        except TextError as error:
            if error.code not in UNSAYABLE:
                raise
            refusals.append(error)
    if not estimates:
        raise refusals[0]
    return sum(estimates)


def speak_long(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[Samples]:
    """Speak a text of any length, piece by piece; see TextEngine.

    Raises:
        TextError: none of it can be spoken; before the first piece.
    """
    parts = _parts(text)
    pause = _SENTENCE_SECONDS * options.pauses / options.speed
    has_spoken, refusals = False, []
    for number, part in enumerate(parts, start=1):
        before = pause if has_spoken else options.silence_before
        after = options.silence_after if number == len(parts) else 0.0
        try:
            spoken = engine.speak(
                part, replace(options, silence_before=before, silence_after=after)
            )
        except TextError as error:
            if error.code not in UNSAYABLE:
                raise
            refusals.append(error)
        else:
            has_spoken = True
            yield from spoken
    if not has_spoken:
        raise refusals[0]


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
