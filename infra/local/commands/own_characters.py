"""Offers bundles that appear in the folder of characters while the local cloud runs.

A new bundle goes into the local cloud's bucket of characters, as `nox -s character -- put` does it
for a service in the cloud, and leaves it when its folder is gone. So no service restarts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from google.api_core.exceptions import GoogleAPICallError

from shared.characters.manifest import BUILT_IN, MANIFEST
from speech.bundles.bundle import BundleError
from speech.bundles.reading import load_character
from speech.engines.registry import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from shared.characters.manifest import CharacterManifest

LOOK_SECONDS: Final = 1.0

Traces = tuple[tuple[str, int, int], ...]
"""What shows that a folder has changed: of each file its path, its time and its size."""


class Offer(Protocol):
    """The bucket of characters; see importing.commands.publish.CharacterFolder."""

    def put(self, manifest: CharacterManifest) -> None:
        """Offer a character, or another revision of it."""
        ...

    def remove(self, character_id: str) -> Sequence[str]:
        """Offer a character no longer."""
        ...


@dataclass
class OwnCharacters:
    """Compares the folder of characters with what is offered.

    Attributes:
        folder: of the bundles.
        bucket: opens what offers those that came after the start.
        say: takes a sentence for the user.
    """

    folder: Path
    bucket: Callable[[], Offer]
    say: Callable[[str], None]
    _served: dict[str, Traces] = field(init=False)
    _seen: Mapping[str, Traces] = field(init=False)
    _judged: dict[str, Traces] = field(init=False)
    _offered: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._seen = self._look()
        self._served = dict(self._seen)
        self._judged = dict(self._seen)

    async def watch(self) -> None:
        """Look at the folder every second; never returns."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Reading and uploading take their time, which the services need meanwhile.
            await asyncio.to_thread(self.follow)

    def follow(self) -> None:
        """Offer what is new and stays the same for two looks; withdraw what is gone."""
        before, self._seen = self._seen, self._look()
        for name in sorted(self._judged.keys() - self._seen.keys()):
            del self._judged[name]
            self._withdraw(name)
        for name, traces in self._seen.items():
            if traces == before.get(name) and traces != self._judged.get(name):
                self._judged[name] = traces
                self._take(name)

    def _take(self, name: str) -> None:
        if name in self._served:
            if self._served[name] != self._seen[name]:
                self.say(f"{name} has changed; start serve again to hear it so.")
            return
        try:
            character = load_character(self.folder / name, ENGINES)
            self.bucket().put(character.manifest)
        except (BundleError, GoogleAPICallError, OSError) as error:
            self._withdraw(name, f"{name} is not offered: {error} The others go on.")
            return
        self._offered.add(name)
        self.say(f"{name} is offered now; VOICEVOX's and OpenAI's routes know it after a restart.")

    def _withdraw(self, name: str, sentence: str = "") -> None:
        if name in self._offered:
            self.bucket().remove(name)
            self._offered.discard(name)
        self.say(sentence or f"{name} is gone and no longer offered.")

    def _look(self) -> Mapping[str, Traces]:
        """Return the traces of every bundle that does not come with the service, by its id."""
        found = sorted(path.parent for path in self.folder.glob(f"*/{MANIFEST}"))
        own = (path for path in found if path.name not in BUILT_IN and path.name[0] != ".")
        return {path.name: _traces(path) for path in own}


def _traces(folder: Path) -> Traces:
    traces = []
    for path in sorted(folder.rglob("*")):
        try:
            facts = path.stat()
        except OSError:
            # It was removed just now; the next look tells.
            continue
        traces.append((str(path.relative_to(folder)), facts.st_mtime_ns, facts.st_size))
    return tuple(traces)
