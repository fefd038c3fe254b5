"""Which character a visitor's voice is for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from functions.api.answers.problems import Problem
from shared.voices.voice import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.characters.manifest import CharacterManifest


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who wants a character.

    Attributes:
        uid: the Firebase uid of one who has signed in.
        key: the secret of an own character's owner, if they have sent it.
    """

    uid: str | None = None
    key: str | None = None


ANYBODY: Final = Visitor()


class OwnCharacters(Protocol):
    """Says which visitors' own characters there are; see functions.api.own_characters.access."""

    async def name_for(self, character_id: str, visitor: Visitor) -> str | None:
        """Return a character's name; None if there is none that this visitor may speak with."""
        ...

    async def public(self) -> Mapping[str, str]:
        """Return the names of the characters that everybody may see, by id."""
        ...


class Source(Enum):
    """The source of a voice: a recording or a text."""

    SPEECH = "speech"
    TEXT = "text"

    def is_taken_by(self, character: CharacterManifest) -> bool:
        """Return whether a character makes voices from this."""
        return character.takes_text if self is Source.TEXT else character.takes_speech

    @property
    def refusal(self) -> ErrorCode:
        """The code with which a character that does not take it is refused."""
        return ErrorCode.TEXT_NOT_TAKEN if self is Source.TEXT else ErrorCode.SPEECH_NOT_TAKEN

    @property
    def verb(self) -> str:
        """The ability that a character needs for it, in words."""
        return "speak text" if self is Source.TEXT else "convert recordings"


def choose_character(
    characters: Mapping[str, CharacterManifest], name: str | None, source: Source
) -> CharacterManifest:
    """Find the character of an id, or the first that takes the source if none is named.

    Raises:
        Problem: `unknown_character`, `text_not_taken` or `speech_not_taken`.
    """
    fitting = {key: each for key, each in characters.items() if source.is_taken_by(each)}
    if name is None and fitting:
        return next(iter(fitting.values()))
    if name is not None and name not in characters:
        known = ", ".join(characters)
        detail = f"There is no character {name!r}; choose one of {known}."
        raise Problem(422, ErrorCode.UNKNOWN_CHARACTER, detail)
    if name is None or name not in fitting:
        others = f"; choose one of {', '.join(fitting)}" if fitting else ""
        who = "No character here can" if name is None else f"{name!r} does not"
        raise Problem(422, source.refusal, f"{who} {source.verb}{others}.")
    return fitting[name]
