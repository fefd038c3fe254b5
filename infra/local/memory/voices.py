"""The voices' documents in memory: a `shared.ports.store.VoiceStore` without Firestore.

Unit tests use it, and so does the local cloud without Google's emulator.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from shared.ports.latest_state import LatestState
from shared.ports.store import ConflictError, Found, Snapshot, UnknownVoiceError, VoiceExistsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.voices.voice import Status, Voice


def _place(snapshot: Snapshot) -> Any:
    """Where a voice stands in a search."""
    return snapshot.voice.updated_at, snapshot.voice.voice_id


@dataclass(frozen=True, slots=True)
class _Entry:
    voice: Voice
    revision: int


class MemoryVoices:
    """A `VoiceStore` for one event loop of one process.

    Args:
        now: the store's clock.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._revisions = count(1)
        self._entries: dict[str, _Entry] = {}
        self._waiters: defaultdict[str, set[LatestState]] = defaultdict(set)

    @property
    def count(self) -> int:
        """How many voices there are."""
        return len(self._entries)

    async def create(self, voice: Voice) -> None:
        """Write a new document; `VoiceExistsError` if there is another one."""
        entry = self._entries.get(voice.voice_id)
        if entry is None:
            self._write(voice)
        elif entry.voice != voice:
            raise VoiceExistsError(f"there is a voice {voice.voice_id} already")

    async def read(self, voice_id: str) -> Snapshot:
        """Read a document; `UnknownVoiceError` if there is none."""
        entry = self._entries.get(voice_id)
        if entry is None:
            raise UnknownVoiceError(voice_id)
        return Snapshot(entry.voice, entry.revision, self._now())

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        """Write `voice` over the state of `snapshot`; `ConflictError` if that is gone."""
        entry = self._entries.get(voice.voice_id)
        if entry is None or entry.revision != snapshot.revision:
            raise ConflictError(f"voice {voice.voice_id} was changed by another")
        return Snapshot(voice, self._write(voice), self._now())

    async def delete(self, voice_id: str) -> None:
        """Delete a document, if there is one."""
        if self._entries.pop(voice_id, None):
            self._tell(voice_id, None)

    async def unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> Found:
        """Read the voices of a status that changed last before `since`, oldest first."""
        found = [
            Snapshot(entry.voice, entry.revision, self._now())
            for entry in self._entries.values()
            if entry.voice.status is status and entry.voice.updated_at < since
        ]
        found = [each for each in sorted(found, key=_place) if not after or _place(each) > after]
        return Found(found[:limit], end=_place(found[limit - 1]) if len(found) >= limit else None)

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        """Follow a document; see `VoiceStore.watch`."""
        latest = LatestState()
        self._waiters[voice_id].add(latest)
        entry = self._entries.get(voice_id)
        latest.put(entry.voice if entry else None)
        try:
            async with aclosing(latest.states()) as states:
                yield states
        finally:
            self._waiters[voice_id].discard(latest)
            if not self._waiters[voice_id]:
                del self._waiters[voice_id]

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def _write(self, voice: Voice) -> int:
        revision = next(self._revisions)
        self._entries[voice.voice_id] = _Entry(voice, revision)
        self._tell(voice.voice_id, voice)
        return revision

    def _tell(self, voice_id: str, state: Voice | None) -> None:
        for waiter in self._waiters.get(voice_id, ()):
            waiter.put(state)
