"""Tells the trainer that a character waits."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from shared.errors import PassingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_LOG = logging.getLogger(__name__)


class TrainerCall:
    """Starts the trainer beside the answer to the character's owner.

    A request that fails is logged and not sent again: the sweep, too, looks for what waits.

    Args:
        start: starts it.
    """

    def __init__(self, start: Callable[[], Awaitable[None]]) -> None:
        self._start = start
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        """Send a request; does not wait for the answer."""
        task = asyncio.create_task(self._try())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _try(self) -> None:
        try:
            await self._start()
        except PassingError as error:
            _LOG.warning("%s", error, extra={"event": "trainer_not_called"})
