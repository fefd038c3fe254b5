"""The characters that can convert, and the loan of one for as long as it is used."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from shared.voices.voice import ErrorCode, VoiceError
from speech.results.marking import Marking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from shared.characters.manifest import CharacterManifest
    from speech.engines.interface.engine import Engine
    from speech.engines.interface.text_engine import PhraseEngine


@dataclass(frozen=True, slots=True)
class LoadedCharacter:
    """A character that can convert.

    Attributes:
        manifest: what its bundle says.
        engine: converts recordings; it refuses them if the character speaks text only.
        text_engine: speaks texts; None if the character takes none.
    """

    manifest: CharacterManifest
    engine: Engine
    text_engine: PhraseEngine | None = None

    @property
    def marking(self) -> Marking:
        """The tags in its converted files."""
        return Marking(self.manifest.id, self.manifest.name.en, self.manifest.credit)

    @property
    def text_marking(self) -> Marking:
        """The tags in files of texts that it speaks."""
        return replace(self.marking, is_from_text=True)


class Characters(Protocol):
    """Lends characters; whatever happens to them meanwhile, one that is lent stays as it is."""

    def using(self, character_id: str) -> AbstractAsyncContextManager[LoadedCharacter]:
        """Lend a character for the time inside the context; it may have to be loaded first.

        Raises:
            VoiceError: `unknown_character`, or the character will not work.
            PassingError: it cannot be loaded now.
        """
        ...


class BuiltInCharacters:
    """The characters of the image: all of them are loaded.

    Args:
        characters: by id.
    """

    def __init__(self, characters: Mapping[str, LoadedCharacter]) -> None:
        self._characters = characters

    def __contains__(self, character_id: str) -> bool:
        return character_id in self._characters

    @asynccontextmanager
    async def using(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        """Lend a character; see Characters.

        Raises:
            VoiceError: `unknown_character`.
        """
        character = self._characters.get(character_id)
        if character is None:
            raise unknown_character(character_id)
        yield character


def unknown_character(character_id: str) -> VoiceError:
    """Return the error of a voice whose character there is not."""
    message = f"There is no character {character_id!r}; choose one of those that the api lists."
    return VoiceError(ErrorCode.UNKNOWN_CHARACTER, message)
