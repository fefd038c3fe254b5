"""Speakers by their names, and texts whose first sentence leaves while the next is spoken."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.compat.service.encoders import open_encoder
from functions.compat.service.synthesis import Speech, too_long
from shared.characters.bundle_files import BundleError
from shared.speech.engines.interface import speak_marked
from shared.speech.engines.text_interface import LONGEST_TEXT, TextError, TextErrorCode
from shared.speech.text.front_end import SentenceSplitter, split_sentences

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        AsyncIterator,
        Callable,
        Iterable,
        Iterator,
        Mapping,
    )
    from contextlib import AbstractAsyncContextManager

    from functions.compat.service.encoders import SoundFormat
    from functions.compat.service.synthesis import Synthesis
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.engines.interface import Mark
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions, TextEngine
    from shared.speech.signal.sound import Samples


@dataclass(frozen=True, slots=True)
class TextSpeaker:
    id: str
    character: LoadedCharacter
    engine: PhraseEngine
    style: int = 0
    style_name: str = ""


class TextSpeakers:
    def __init__(self, voices: Iterable[TextSpeaker], names: Mapping[str, str]) -> None:
        self.offer(voices)
        self._names = names
        for name, voice in names.items():
            if voice not in self._voices:
                raise BundleError(
                    f"OPENAI_VOICES: expected NAME=CHARACTER with one of {self.ids},"
                    f" found '{name}={voice}'."
                )

    def offer(self, voices: Iterable[TextSpeaker]) -> None:
        """Offer these from now on, in this order; raise BundleError if there are none."""
        offered = {voice.id: voice for voice in voices}
        if not offered:
            raise BundleError("expected a character that takes text")
        self._voices = offered

    @property
    def default(self) -> TextSpeaker:
        return next(iter(self._voices.values()))

    @property
    def ids(self) -> str:
        return ", ".join(self._voices)

    def all(self) -> list[TextSpeaker]:
        return list(self._voices.values())

    def find(self, name: str) -> TextSpeaker | None:
        return self._voices.get(self._names.get(name, name))


def text_speakers_of(characters: Mapping[str, LoadedCharacter]) -> list[TextSpeaker]:
    found = []
    for name, character in characters.items():
        engine, styles = character.text_engine, character.manifest.styles
        if engine is not None:
            found.append(TextSpeaker(name, character, engine))
            found += [
                TextSpeaker(f"{name}:{style.name}", character, engine, style.id, style.name)
                for style in (styles if len(styles) > 1 else ())
            ]
    return found


def names_of(entries: Iterable[str]) -> dict[str, str]:
    return {name: voice for name, _, voice in (entry.partition("=") for entry in entries)}


_SENTENCE_SECONDS: Final = 0.45  # the pause between two sentences at usual speed

# Errors of a part that is skipped: the parts around it still say something.
_UNSAYABLE: Final = frozenset({TextErrorCode.NOTHING_TO_SAY, TextErrorCode.TEXT_UNREADABLE})


def speech_of(voice: TextSpeaker, text: str, options: SpeechOptions, sound: SoundFormat) -> Speech:
    asked, rate = replace(options, style=voice.style), voice.engine.sample_rate
    return Speech(
        partial(speak_long, voice.engine, text, asked),
        rate,
        partial(open_encoder, sound, rate, voice.character.text_marking),
        partial(estimate_long, voice.engine, text, asked),
    )


def marked_speech_of(
    voice: TextSpeaker,
    text: str,
    options: SpeechOptions,
    sound: SoundFormat,
    note: Callable[[Mark], None],
) -> Speech:
    """Return the speech of a text of at most `LONGEST_TEXT` characters.

    `note` gets each mark of a word or phone, in seconds from the first sample on, in the thread
    that speaks, before the sound in which it lies.
    """

    def begin() -> Iterator[Samples]:
        seconds = 0.0
        for piece in speak_marked(voice.engine, text, replace(options, style=voice.style)):
            for mark in piece.marks:
                note(mark.later(seconds))
            yield piece.samples
            seconds += len(piece.samples) / voice.engine.sample_rate

    return replace(speech_of(voice, text, options, sound), begin=begin)


def estimate_long(engine: TextEngine, text: str, options: SpeechOptions) -> float:
    """Estimate the seconds of a text of any length; raise TextError if none can be spoken."""
    estimates, refusals = [], []
    for part in _parts(text):
        try:
            estimates.append(engine.estimate(part, options))
        except TextError as error:
            if error.code not in _UNSAYABLE:
                raise
            refusals.append(error)
    if not estimates:
        raise refusals[0]
    return sum(estimates)


def speak_long(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[Samples]:
    """Speak a text of any length; raise TextError before the first piece if none can be spoken."""
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
            if error.code not in _UNSAYABLE:
                raise
            refusals.append(error)
        else:
            has_spoken = True
            yield from spoken
    if not has_spoken:
        raise refusals[0]


def _parts(text: str) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """Sound of a sentence; `begin` and its marks are in seconds from the first sample on.

    Attributes:
        sentence: its text, in its first piece; None in the others.
        marks: of this piece, and perhaps of pieces that follow, if they were asked for.
        unread: the languages and scripts of what is left out of the sentence; such a piece comes
            before the others of its sentence and has no sound.
    """

    sentence: str | None
    begin: float
    sound: bytes
    marks: tuple[Mark, ...] = ()
    unread: str = ""


async def speak_text_stream(
    synthesis: Synthesis,
    voice: TextSpeaker,
    sentences: AsyncIterable[str],
    options: SpeechOptions,
    sound: SoundFormat,
    *,
    client: str | None = None,
    with_marks: bool = False,
    whole: str | None = None,
    count: Callable[[int], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
) -> AsyncGenerator[SpokenPiece]:
    """Speak sentences as they come; together they take turns with others as one text.

    If the whole text is known, its length is judged before anything is spoken. `count` counts the
    characters of a sentence around its beginning. Raises TextError if no sentence can be read, or
    the next one would take longer than the limit.
    """
    if whole is not None:
        asked = replace(options, style=voice.style)
        estimate = partial(estimate_long, voice.engine, whole, asked)
        whole_seconds = 0.0
        with suppress(TextError):  # each sentence raises its own
            whole_seconds = await synthesis.compute(estimate, client)
        if whole_seconds > synthesis.limits.seconds:
            raise too_long(synthesis.limits.seconds)
    seconds, has_spoken = 0.0, False
    unreadable: TextError | None = None
    noted: deque[Mark] = deque()
    turn = synthesis.turn(client)
    speak = partial(marked_speech_of, note=noted.append) if with_marks else speech_of
    async for sentence in sentences:
        if names := voice.engine.divide(sentence, options).unread_names:
            yield SpokenPiece(sentence, seconds, b"", unread=names)
        pause = _SENTENCE_SECONDS * options.pauses / options.speed
        before = pause if seconds else options.silence_before
        spoken = replace(options, silence_before=before, silence_after=0.0)
        try:
            async with count(len(sentence)):
                stream = await synthesis.stream(
                    speak(voice, sentence, spoken, sound),
                    client,
                    turn=turn,
                    seconds_before=seconds if whole is None else 0.0,
                )
        except TextError as error:
            if error.code not in _UNSAYABLE:
                raise
            if error.code is TextErrorCode.TEXT_UNREADABLE:
                unreadable = error
            continue
        has_spoken, began = True, seconds
        begins: str | None = sentence
        try:
            async with aclosing(stream.read()) as pieces:
                async for piece in pieces:
                    marks = tuple(noted.popleft().later(began) for _ in range(len(noted)))
                    yield SpokenPiece(begins, seconds, piece, marks)
                    begins = None
                    seconds += len(piece) / sound.bytes_per_second
        finally:
            synthesis.close(stream)
            noted.clear()
    if unreadable is not None and not has_spoken:
        raise unreadable


LONGEST_UTTERANCE: Final = 16_384  # characters


class TextUtterance:
    def __init__(self) -> None:
        self._characters = 0
        self._splitter = SentenceSplitter()
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()

    def push(self, text: str) -> None:
        """Add a piece; raise TextError if the text is too long."""
        self._characters += len(text)
        if self._characters > LONGEST_UTTERANCE:
            raise TextError(
                TextErrorCode.TEXT_TOO_LONG,
                f"The text may have at most {LONGEST_UTTERANCE} characters. Send it in parts.",
            )
        for sentence in self._splitter.push(text):
            self._waiting.put_nowait(sentence)

    def flush(self) -> None:
        """Speak the rest, although its sentence is not whole."""
        for sentence in self._splitter.finish():
            self._waiting.put_nowait(sentence)

    def end(self) -> None:
        self.flush()
        self._waiting.put_nowait(None)

    async def sentences(self) -> AsyncIterator[str]:
        while (sentence := await self._waiting.get()) is not None:
            yield sentence
