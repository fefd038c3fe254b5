"""Everything that is kept for clients of VOICEVOX, opened together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.compat.keys.kept_file import KeptFile
from functions.compat.voicevox.memory.memory import Presets, UserDictionary
from speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Kept:
    """What clients leave with the service.

    Attributes:
        presets: their settings.
        dictionary: their words, and what reads texts with them.
    """

    presets: Presets
    dictionary: UserDictionary

    @classmethod
    def opened(cls, folder: Path | None = None) -> Kept:
        """Open the presets and words of a folder; None keeps them in this process."""
        if folder is None:
            return cls(Presets(), UserDictionary())
        folder.mkdir(parents=True, exist_ok=True)
        presets, words = KeptFile(folder / "presets.json"), KeptFile(folder / "words.json")
        dictionary = UserDictionary(file=words)
        dictionary.refresh()
        return cls(Presets(presets), dictionary)

    def front_end(self) -> FrontEnd:
        """Build the front end that reads texts with the clients' words."""
        return FrontEnd(lambda: self.dictionary, self.dictionary.has)
