"""The speakers that clients of all dialects ask for by a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.characters.bundle_files import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.conversion.characters import LoadedCharacter
    from shared.speech.engines.text_interface import PhraseEngine


@dataclass(frozen=True, slots=True)
class TextSpeaker:
    """A character, or one style of it, that speaks text."""

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
        """Find a speaker by its id or a further name."""
        return self._voices.get(self._names.get(name, name))


def text_speakers_of(characters: Mapping[str, LoadedCharacter]) -> list[TextSpeaker]:
    """Return a speaker for each character that takes text, and one for each style of it."""
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
    """Read further names of speakers, each NAME=CHARACTER."""
    return {name: voice for name, _, voice in (entry.partition("=") for entry in entries)}
