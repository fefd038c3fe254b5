"""Looks after visitors' own characters: deletes what nobody may keep, and starts the trainer."""

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
"""After so long a character should have been trained, whatever else waits."""


@dataclass(frozen=True, slots=True)
class OwnCharacterSweep:
    """One look after visitors' own characters."""

    store: OwnCharacterStore
    cleaner: OwnCharacterCleaner
    start_trainer: Callable[[], Awaitable[None]]

    async def sweep(self) -> None:
        """Start the trainer if a character waits, and clean up.

        Raises:
            PassingError: the store, a bucket or the trainer does not answer; the rest was done.
        """
        try:
            await self._start_if_one_waits()
        finally:
            await self.cleaner.clean()

    async def _start_if_one_waits(self) -> None:
        for oldest in await self.store.find_waiting(limit=1):
            await self.start_trainer()
            waits = oldest.read_at - oldest.character.updated_at
            extra = {"event": "trainer_started", "seconds": round(waits.total_seconds())}
            _LOG.info("trainer started: a character waits", extra=extra)
            if waits > LONG:
                _LOG.error("a character waits for long", extra=extra | {"event": "trainings_wait"})
