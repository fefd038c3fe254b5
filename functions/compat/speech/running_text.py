"""Text that comes in pieces, as language models write it, spoken as soon as a sentence is whole."""

from __future__ import annotations

import re
from collections import deque
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.compat.speech.synthesis import too_long
from functions.compat.speech.texts import UNSAYABLE, estimate_long, marked_speech_of, speech_of
from speech.engines.interface.text_engine import TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable
    from contextlib import AbstractAsyncContextManager

    from functions.compat.speech.formats import SoundFormat
    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.speech.voices import TextVoice
    from speech.engines.interface.marks import Mark
    from speech.engines.interface.text_engine import SpeechOptions

LONGEST_WAITING: Final = 400
"""After so many characters without an end a text is spoken up to its last comma or space."""

_ENDS: Final = re.compile(r"[。．！？!?…\r\n\u2028\u2029]+[」』）)】〉》\"”’']*|\.(?=\s)")
_BREATHS: Final = re.compile(r"[、，,；;：:・]|\s")
_SENTENCE_SECONDS: Final = 0.45


class Sentences:
    """Collects text until sentences are whole."""

    def __init__(self) -> None:
        self._waiting = ""

    def push(self, text: str) -> list[str]:
        """Take the next piece of the text, and return the sentences that are whole now."""
        self._waiting += text
        sentences = []
        while (end := self._end()) is not None:
            sentences.append(self._waiting[:end])
            self._waiting = self._waiting[end:]
        return [each for each in sentences if each.strip()]

    def finish(self) -> list[str]:
        """Return the rest, when nothing more comes."""
        rest, self._waiting = self._waiting, ""
        return [rest] if rest.strip() else []

    def _end(self) -> int | None:
        found = _ENDS.search(self._waiting)
        if found is not None and found.end() <= LONGEST_WAITING:
            return found.end()
        if len(self._waiting) < LONGEST_WAITING:
            return None
        breaths = [each.end() for each in _BREATHS.finditer(self._waiting, 0, LONGEST_WAITING)]
        return breaths[-1] if breaths else LONGEST_WAITING


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """Something that was spoken.

    Attributes:
        sentence: the text of the sentence that it begins; None if it goes on.
        begin: of this piece, in seconds from the first sample on.
        sound: in the format that was asked for; PCM, mu-law or A-law.
        marks: of this piece, and perhaps of pieces that follow, in seconds from the first sample
            on; none unless they were asked for.
    """

    sentence: str | None
    begin: float
    sound: bytes
    marks: tuple[Mark, ...] = ()


async def speak_running(
    synthesis: Synthesis,
    voice: TextVoice,
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

    Leaving the iterator ends the speech.

    Args:
        synthesis: speaks; bounded.
        voice: whose voice.
        sentences: one after the other.
        options: how they are spoken.
        sound: PCM, mu-law or A-law: what is sent one after the other is one sound.
        client: who takes turns with others; None if that does not matter.
        whole: all of the text, if it has come: it is refused at once if it is too long.
        with_marks: whether to tell when words and phones begin, where the voice knows.
        count: counts the characters of a sentence around its beginning.

    Raises:
        OverloadedError: there is no place for the next sentence.
        TextError: no sentence can be read, or the next one would take longer than the limit.
    """
    if whole is not None:
        await synthesis.think(partial(_check, synthesis, voice, whole, options), client)
    seconds = 0.0
    has_spoken = False
    unreadable: TextError | None = None
    noted: deque[Mark] = deque()
    turn = synthesis.turn(client)
    speak = partial(marked_speech_of, note=noted.append) if with_marks else speech_of
    async for sentence in sentences:
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
            if error.code not in UNSAYABLE:
                raise
            if error.code is TextErrorCode.TEXT_UNREADABLE:
                unreadable = error
            continue
        has_spoken = True
        begins: str | None = sentence
        began = seconds
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


def _check(synthesis: Synthesis, voice: TextVoice, text: str, options: SpeechOptions) -> None:
    """Refuse a text that would take too long to say."""
    try:
        seconds = estimate_long(voice.engine, text, replace(options, style=voice.style))
    except TextError:
        return  # its sentences tell, one by one
    if seconds > synthesis.limits.seconds:
        raise too_long(synthesis.limits.seconds)
