"""What a client of Wyoming asks for in one connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from functions.compat.speech.running_text import Sentences

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from functions.compat.speech.voices import TextVoice, TextVoices
    from functions.compat.wyoming.events import Event

LONGEST_TEXT: Final = 16_384
"""How many characters one utterance may have."""


class RequestError(Exception):
    """A request that cannot be served; one sentence."""


class Utterance:
    """A text that is to be spoken.

    Args:
        voice: that speaks.
        text: the whole text; None if it comes in pieces.
    """

    def __init__(self, voice: TextVoice, text: str | None) -> None:
        self.voice = voice
        self.text = text
        self._characters = 0
        self._collected = Sentences()
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()
        if text is not None:
            self.push(text)
            self.end()

    def push(self, text: str) -> None:
        """Take the next piece of the text.

        Raises:
            RequestError: the text is too long.
        """
        self._characters += len(text)
        if self._characters > LONGEST_TEXT:
            raise RequestError(f"The text may have at most {LONGEST_TEXT} characters.")
        for sentence in self._collected.push(text):
            self._waiting.put_nowait(sentence)

    def end(self) -> None:
        """Say that nothing more comes."""
        for sentence in self._collected.finish():
            self._waiting.put_nowait(sentence)
        self._waiting.put_nowait(None)

    async def sentences(self) -> AsyncIterator[str]:
        """Yield the sentences as soon as they are whole."""
        while (sentence := await self._waiting.get()) is not None:
            yield sentence


class Conversation:
    """What has been asked for; one utterance after the other.

    Args:
        voices: that can be asked for.
    """

    def __init__(self, voices: TextVoices) -> None:
        self._voices = voices
        self._coming: Utterance | None = None

    def take(self, event: Event) -> Utterance | None:
        """Take an event; events that nobody knows are ignored, as the protocol says.

        Returns:
            What is to be spoken from now on; None if nothing new is.

        Raises:
            RequestError: it cannot be served.
        """
        if event.type == "synthesize":
            # Clients that send a text in pieces send all of it again, for servers that know no
            # pieces.
            if self._coming is not None:
                return None
            return Utterance(self._find_voice(event.data), _text_in(event.data))
        if event.type == "synthesize-start":
            self._coming = Utterance(self._find_voice(event.data), None)
            return self._coming
        if event.type == "synthesize-chunk" and self._coming is not None:
            self._coming.push(_text_in(event.data))
        if event.type == "synthesize-stop":
            self.leave()
        return None

    def leave(self) -> None:
        """Say that no more text comes."""
        if self._coming is not None:
            self._coming.end()
            self._coming = None

    def _find_voice(self, data: Mapping[str, Any]) -> TextVoice:
        asked = data.get("voice") or {}
        name = asked.get("name") if isinstance(asked, dict) else None
        if name is None:
            return self._voices.default
        speaker = asked.get("speaker")
        voice = self._voices.find(f"{name}:{speaker}") if speaker else self._voices.find(str(name))
        if voice is None:
            known = ", ".join(each.id for each in self._voices.all())
            raise RequestError(f"There is no voice {name!r}; choose one of {known}.")
        return voice


def _text_in(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    if not isinstance(text, str):
        raise RequestError("Expected a text.")
    return text
