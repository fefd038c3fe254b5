"""One connection of a client of Wyoming."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from functions.compat.speech.utterance import Utterance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.compat.speech.voices import TextVoice, TextVoices
    from functions.compat.wyoming.events import Event


_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


class RequestError(Exception):
    """A request that cannot be served; one sentence."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be spoken.

    Attributes:
        voice: that speaks.
        text: what it says.
        whole: all of what it says, if that came at once; None if it comes in pieces.
    """

    voice: TextVoice
    text: Utterance
    whole: str | None


class Conversation:
    """What has been asked for; one utterance after the other.

    Args:
        voices: that can be asked for.
    """

    def __init__(self, voices: TextVoices) -> None:
        self._voices = voices
        self._coming: Utterance | None = None

    def take(self, event: Event) -> Asked | None:
        """Take an event; events that nobody knows are ignored, as the protocol says.

        Returns:
            What is to be spoken from now on; None if nothing new is.

        Raises:
            RequestError: it cannot be served.
            TextError: a text is too long.
        """
        if event.type == "synthesize":
            # Clients that send a text in pieces send all of it again, for servers that know no
            # pieces.
            if self._coming is not None:
                return None
            voice, text = self._find_voice(event.data), _text_in(event.data)
            return Asked(voice, Utterance.whole(text), text)
        if event.type == "synthesize-start":
            voice = self._find_voice(event.data)
            self.leave()
            self._coming = Utterance()
            return Asked(voice, self._coming, None)
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
        if voice is None and speaker and self._voices.find(str(name)):
            raise RequestError(f"The voice {name!r} has no speaker {speaker!r}.")
        if voice is None:
            known = ", ".join(each.id for each in self._voices.all())
            raise RequestError(f"There is no voice {name!r}; choose one of {known}.")
        return voice


def _text_in(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    # JSON can name half of a surrogate pair, which no engine reads.
    if not isinstance(text, str) or _HALF_A_PAIR.search(text):
        raise RequestError("Expected a text.")
    return text
