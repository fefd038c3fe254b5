"""How much work an instance accepts: how many conversions run, and how many requests wait."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from shared.http.push import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Slots(Protocol):
    """Limits what is done at once: an asynchronous context waits for a slot and takes it."""

    async def __aenter__(self) -> None:
        """Wait for a slot."""

    async def __aexit__(self, *_: object) -> None:
        """Release it."""


class Admission:
    """Limits the requests that are accepted and the conversions that run at the same time.

    Args:
        running: how many conversions, or spoken texts, run at once.
        waiting: how many more requests may wait.
        slots: limits what runs, where other processes run some of it; None if this one runs all.
    """

    def __init__(self, *, running: int, waiting: int, slots: Slots | None = None) -> None:
        self._most = running + waiting
        self._admitted = 0
        self._running = slots or asyncio.Semaphore(running)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Accept one request, for as long as it is handled.

        Raises:
            OverloadedError: as many as are allowed are being handled.
        """
        if self._admitted >= self._most:
            raise OverloadedError(f"all {self._most} places are taken")
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Wait until one more conversion may run, and count it while it does."""
        async with self._running:
            yield
