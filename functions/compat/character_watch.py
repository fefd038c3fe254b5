"""Bundles that come into the folder of characters, or leave it, while the service runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.compat.service.texts import text_speakers_of
from functions.compat.voicevox.speakers import speakers_of_characters
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.conversion.characters import build_character
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import WatchedFolder, load_character

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from functions.compat.service.texts import TextSpeakers
    from functions.compat.voicevox.speakers import VoicevoxSpeakers
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.graphs.sessions import SessionSettings
    from shared.speech.results.watermark_engines import Marker

_LOG = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class OfferedCharacters:
    characters: dict[str, LoadedCharacter]
    voices: VoicevoxSpeakers
    text_voices: TextSpeakers

    def __contains__(self, character_id: str) -> bool:
        return character_id in self.characters

    def put(self, character: LoadedCharacter) -> None:
        self.replace_all(self.characters | {character.manifest.id: character})

    def remove(self, character_id: str) -> None:
        """Withdraw a character; raise BundleError if no other takes text."""
        others = {name: it for name, it in self.characters.items() if name != character_id}
        self.replace_all(others)

    def replace_all(self, characters: dict[str, LoadedCharacter]) -> None:
        speakers = speakers_of_characters(characters)
        self.text_voices.offer(text_speakers_of(characters))
        self.voices.offer(speakers)
        self.characters.clear()
        self.characters.update(characters)


class CharacterWatch:
    """Compares the folder of characters with the offered ones; by default all in it are `known`."""

    def __init__(
        self,
        folder: Path,
        load: Callable[[Path], LoadedCharacter],
        known: Container[str] | None = None,
    ) -> None:
        self._folder = folder
        self._watched = WatchedFolder(folder, known)
        self._load = load

    async def follow(self, offered: OfferedCharacters) -> None:
        """Look at the folder every second; never returns."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look(offered)
            except OSError as error:
                # The folder may be on a disk that comes back.
                extra = {"event": "characters_not_looked_at"}
                _LOG.warning("the folder of characters cannot be read: %s", error, extra=extra)

    async def look(self, offered: OfferedCharacters) -> None:
        """Offer new bundles; where one does not load, the revision before stays."""
        changes = await asyncio.to_thread(self._watched.look)
        for name in changes.new:
            try:
                offered.put(await asyncio.to_thread(self._load, self._folder / name))
            except (BundleError, OSError) as error:
                extra = {"event": "character_not_offered", "character": name}
                _LOG.info("character %s is not offered: %s", name, error, extra=extra)
            else:
                extra = {"event": "character_offered", "character": name}
                _LOG.info("character %s is offered", name, extra=extra)
        for name in changes.gone:
            if name not in offered:
                continue
            extra = {"event": "character_withdrawn", "character": name}
            try:
                offered.remove(name)
            except BundleError as error:
                _LOG.warning("character %s stays: %s", name, error, extra=extra)
            else:
                _LOG.info("character %s is no longer offered", name, extra=extra)


def load_bundle(
    folder: Path,
    session: SessionSettings,
    max_bytes: int = MAX_BUNDLE_BYTES,
    marker: Marker | None = None,
) -> LoadedCharacter:
    return build_character(load_character(folder, ENGINES, max_bytes), session, marker=marker)
