"""A text that is to be spoken, and may still be coming."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from functions.compat.speech.running_text import Sentences
from speech.engines.interface.text_engine import TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LONGEST_TEXT: Final = 16_384
"""How many characters one utterance may have."""


class Utterance:
    """A text that comes in pieces; what is whole of it is spoken meanwhile."""

    def __init__(self) -> None:
        self._characters = 0
        self._collected = Sentences()
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()

    @classmethod
    def whole(cls, text: str) -> Utterance:
        """Return one that has come already.

        Raises:
            TextError: the text is too long.
        """
        utterance = cls()
        utterance.push(text)
        utterance.end()
        return utterance

    def push(self, text: str) -> None:
        """Take the next piece of the text.

        Raises:
            TextError: the text is too long.
        """
        self._characters += len(text)
        if self._characters > LONGEST_TEXT:
            raise TextError(
                TextErrorCode.TEXT_TOO_LONG,
                f"The text may have at most {LONGEST_TEXT} characters. Send it in parts.",
            )
        for sentence in self._collected.push(text):
            self._waiting.put_nowait(sentence)

    def flush(self) -> None:
        """Speak what waits, although its sentence is not whole."""
        for sentence in self._collected.finish():
            self._waiting.put_nowait(sentence)

    def end(self) -> None:
        """Say that nothing more comes."""
        self.flush()
        self._waiting.put_nowait(None)

    async def sentences(self) -> AsyncIterator[str]:
        """Yield the sentences as soon as they are whole."""
        while (sentence := await self._waiting.get()) is not None:
            yield sentence
