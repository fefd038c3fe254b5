"""The sweep of visitors' own characters: deletes expired data and starts the trainer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.characters.own.recordings import OwnCharacterCleaner
    from shared.characters.own.store import OwnCharacterStore

_LOG = logging.getLogger(__name__)

LONG: Final = timedelta(hours=1)
"""The time after which a character should have been trained whatever the queue."""


@dataclass(frozen=True, slots=True)
class OwnCharacterSweep:
    store: OwnCharacterStore
    cleaner: OwnCharacterCleaner
    start_trainer: Callable[[], Awaitable[None]]

    async def sweep(self) -> None:
        """Start the trainer if a character waits, and clean up even if that fails."""
        try:
            for oldest in await self.store.waiting(limit=1):
                await self.start_trainer()
                wait = oldest.read_at - oldest.character.updated_at
                extra = {"event": "trainer_started", "seconds": round(wait.total_seconds())}
                _LOG.info("trainer started: a character waits", extra=extra)
                if wait > LONG:
                    extra |= {"event": "trainings_wait"}
                    _LOG.error("a character waits for long", extra=extra)
        finally:
            await self.cleaner.clean()
