"""Characters that are fetched from the bucket at their first use and cached.

Each is read into memory, checked against its manifest and built, by one load at a time. The most
recently used stay loaded as long as their graphs fit into the memory for them. One that is lent is
never dropped: it stays as it is until it is returned, also when the bucket has another one by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared.characters.bucket import NoSuchCharacterError
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import ManifestError
from shared.conversion.characters import return_memory, unknown_character
from shared.voices.voice import ErrorCode, PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from shared.characters.bucket import CharacterBucket, PublishedCharacter
    from shared.conversion.characters import BuiltInCharacters, CharacterLoader, LoadedCharacter

_LOG = logging.getLogger(__name__)

BROKEN_SECONDS: Final = 20.0  # until a character that does not work is loaded again
MEMORY_WAIT_SECONDS: Final = 30.0  # until enough of the lent characters are returned


class CacheFullError(PassingError):
    """The characters that are in use leave no memory for another one."""


@dataclass(eq=False)
class _Copy:
    """One revision of a character in this process; `graphs` are its sizes by SHA-256 once known."""

    revision: int
    checked_at: float
    loading: asyncio.Task[LoadedCharacter] = field(init=False)
    graphs: Mapping[str, int] = field(default_factory=dict)
    loans: int = 0

    @property
    def is_loaded(self) -> bool:
        return self.loading.done()


class BucketCharacters:
    """The built-in characters and those in the bucket; see CharacterLender.

    Args:
        memory_bytes: the most bytes of all graphs from the bucket.
        refresh_seconds: the time until the bucket is asked for a newer revision.
    """

    def __init__(
        self,
        built_in: BuiltInCharacters,
        bucket: CharacterBucket,
        loader: CharacterLoader,
        *,
        memory_bytes: int,
        refresh_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._built_in = built_in
        self._bucket = bucket
        self._loader = loader
        self._memory_bytes = memory_bytes
        self._refresh_seconds = refresh_seconds
        self._now = now
        # The least recently used is the first.
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._replaced: set[_Copy] = set()
        self._broken: dict[str, tuple[int, float]] = {}
        self._one_load = asyncio.Lock()
        self._returned = asyncio.Event()

    @asynccontextmanager
    async def lend(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        if character_id in self._built_in:
            async with self._built_in.lend(character_id) as character:
                yield character
            return
        copy = await self._current(character_id)
        copy.loans += 1
        try:
            # Others may wait for the same load: it goes on if this voice is given up.
            yield await asyncio.shield(copy.loading)
        finally:
            copy.loans -= 1
            if not copy.loans:
                self._replaced.discard(copy)
                self._returned.set()

    async def _current(self, character_id: str) -> _Copy:
        """Return the copy of the revision in the bucket; its load may not be finished."""
        copy = self._copies.get(character_id)
        fresh_since = self._now() - self._refresh_seconds
        if copy is None or (copy.is_loaded and copy.checked_at <= fresh_since):
            revision = await self._ask_revision(character_id)
            # Another voice may have asked at the same time.
            copy = self._copies.get(character_id)
            if copy is None or copy.revision != revision:
                known, until = self._broken.get(character_id, (None, 0.0))
                if known == revision and self._now() < until:
                    raise broken_character(character_id)
                self._drop(character_id)
                return self._begin_load(character_id, revision)
            copy.checked_at = self._now()
        self._copies.move_to_end(character_id)
        return copy

    async def _ask_revision(self, character_id: str) -> int:
        try:
            return await self._bucket.revision(character_id)
        except NoSuchCharacterError as error:
            self._drop(character_id)
            raise unknown_character(character_id) from error
        except PassingError as error:
            copy = self._copies.get(character_id)
            if copy is None:
                raise
            extra = {"event": "character_not_checked", "character": character_id}
            _LOG.warning("%s is used unchecked: %s", character_id, error, extra=extra)
            return copy.revision

    def _begin_load(self, character_id: str, revision: int) -> _Copy:
        def forget_if_failed(load: asyncio.Task[LoadedCharacter]) -> None:
            if load.cancelled() or load.exception() is not None:
                copy.graphs = {}
                if self._copies.get(character_id) is copy:
                    del self._copies[character_id]

        copy = self._copies[character_id] = _Copy(revision, self._now())
        copy.loading = asyncio.create_task(self._load(character_id, copy))
        copy.loading.add_done_callback(forget_if_failed)
        return copy

    async def _load(self, character_id: str, copy: _Copy) -> LoadedCharacter:
        async with self._one_load:
            begin = self._now()
            try:
                found = await self._bucket.read(character_id)
                copy.revision = found.revision
                # Networks that it shares with a dropped character need not be loaded again.
                shared = self._loader.hold_shared(found)
                await self._free_memory(found, copy)
                character = await self._loader.load(found)
                del shared
            except NoSuchCharacterError as error:
                raise unknown_character(character_id) from error
            except (BundleError, ManifestError) as error:
                self._broken[character_id] = (copy.revision, self._now() + BROKEN_SECONDS)
                broken = {"event": "character_broken", "character": character_id}
                _LOG.error("character %s does not work: %s", character_id, error, extra=broken)
                raise broken_character(character_id) from error
            extra = {
                "event": "character_loaded",
                "character": character_id,
                "load_ms": round((self._now() - begin) * 1000),
                "bytes": sum(copy.graphs.values()),
            }
            _LOG.info("character %s loaded", character_id, extra=extra)
            return character

    async def _free_memory(self, found: PublishedCharacter, copy: _Copy) -> None:
        """Drop the characters that were used longest ago until this one fits."""
        graphs = {each.sha256: each.bytes for each in found.manifest.graphs.values()}
        if (needed := sum(graphs.values())) > self._memory_bytes:
            raise BundleError(
                f"expected at most {self._memory_bytes} bytes in all graphs together, found"
                f" {needed}; raise CHARACTERS_MEMORY_BYTES"
            )
        try:
            async with asyncio.timeout(MEMORY_WAIT_SECONDS):
                while self._bytes_with(graphs) > self._memory_bytes:
                    await self._drop_idle()
        except TimeoutError as error:
            name = found.manifest.id
            raise CacheFullError(f"no memory for {name}: all others are in use") from error
        copy.graphs = graphs

    def _bytes_with(self, graphs: Mapping[str, int]) -> int:
        """Sum up the bytes of these graphs and those of all copies; shared ones count once."""
        together = dict(graphs)
        for copy in (*self._copies.values(), *self._replaced):
            together.update(copy.graphs)
        return sum(together.values())

    async def _drop_idle(self) -> None:
        """Drop the loaded character that was used longest ago, or wait until one is returned."""
        idle = (name for name, copy in self._copies.items() if copy.is_loaded and not copy.loans)
        name = next(idle, None)
        if name is None:
            self._returned.clear()
            await self._returned.wait()
            return
        self._drop(name)
        await asyncio.to_thread(return_memory)

    def _drop(self, character_id: str) -> None:
        copy = self._copies.pop(character_id, None)
        if copy is not None and copy.loans:
            self._replaced.add(copy)


def broken_character(character_id: str) -> VoiceError:
    message = f"The character {character_id!r} does not work just now; choose another one."
    return VoiceError(ErrorCode.INTERNAL, message)
