"""How much work an instance takes on: so many conversions at once, so many waiting, no more."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from shared.http.push import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Admission:
    """Lets messages in and conversions run.

    Args:
        running: how many conversions run at once.
        waiting: how many more messages may be inside.
    """

    def __init__(self, *, running: int, waiting: int) -> None:
        self._places = running + waiting
        self._inside = 0
        self._running = asyncio.Semaphore(running)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Let one message in.

        Raises:
            OverloadedError: every place is taken.
        """
        if self._inside >= self._places:
            raise OverloadedError(f"all {self._places} places are taken")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a conversion may run."""
        async with self._running:
            yield
