"""Offers bundles that appear in the folder of characters while the local cloud runs.

A new bundle goes into the local cloud's bucket of characters, as `nox -s character -- put` does it
for a service in the cloud, and leaves it when its folder is gone. So no service restarts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from google.api_core.exceptions import GoogleAPICallError

from shared.characters.bundle_files import BundleError
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import WatchedFolder, load_character

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shared.characters.folder import CharacterFolder

LOOK_SECONDS: Final = 1.0


@dataclass
class BundleWatch:
    """Compares the folder of characters with what is offered."""

    folder: Path
    bucket: Callable[[], CharacterFolder]
    say: Callable[[str], None]
    _followed: WatchedFolder = field(init=False)
    _served: set[str] = field(init=False)
    _offered: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._followed = WatchedFolder(self.folder)
        self._served = set(self._followed.names)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Reading and uploading take their time, which the services need meanwhile.
            await asyncio.to_thread(self.follow)

    def follow(self) -> None:
        """Offer what is new and stays the same for two looks; withdraw what is gone."""
        changes = self._followed.look()
        for name in changes.gone:
            self._withdraw(name)
        for name in changes.new:
            self._take(name)

    def _take(self, name: str) -> None:
        if name in self._served:
            self.say(f"{name} has changed; start serve again to hear it so in the page.")
            return
        try:
            character = load_character(self.folder / name, ENGINES)
            self.bucket().put(character.manifest)
        except (BundleError, GoogleAPICallError, OSError) as error:
            self._withdraw(name, f"{name} is not offered: {error} The others go on.")
            return
        self._offered.add(name)
        self.say(f"{name} is offered now.")

    def _withdraw(self, name: str, sentence: str = "") -> None:
        if name in self._offered:
            self.bucket().remove(name)
            self._offered.discard(name)
        self.say(sentence or f"{name} is gone and no longer offered.")
