"""Stores that count their reads and fail as a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.local.cloud.memory import MemoryOwnCharacters, MemoryVoices
from shared.voices.store import StoreUnavailableError

if TYPE_CHECKING:
    from shared.characters.own.store import OwnCharacterSnapshot
    from shared.voices.store import Snapshot
    from shared.voices.voice import Voice


class CountedVoices(MemoryVoices):
    """Fails every read while it `is_down`, and the next `failing_writes`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reads = 0
        self.is_down = False
        self.failing_writes = 0

    async def read(self, voice_id: str) -> Snapshot:
        self.reads += 1
        if self.is_down:
            raise StoreUnavailableError("down")
        return await super().read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.failing_writes:
            self.failing_writes -= 1
            raise StoreUnavailableError("down")
        return await super().replace(snapshot, voice)


class CountedOwnCharacters(MemoryOwnCharacters):
    """Fails every read while it `is_down`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reads = 0
        self.is_down = False

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        self.reads += 1
        if self.is_down:
            raise StoreUnavailableError("down")
        return await super().read(character_id)
