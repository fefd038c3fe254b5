"""Sends to one client, in order; nobody waits for a slow one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Outbox:
    """Sends messages from a task of its own; use it as an async context manager.

    A client that reads slowly delays only its own messages. What may be left out is not even kept
    for it, so an outbox holds little more than the result.

    Args:
        send: sends one message, text or binary; waits while the client does not read.
    """

    def __init__(self, send: Callable[[str | bytes], Awaitable[None]]) -> None:
        self._send = send
        self._messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._unsent = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to send."""
        self._task = asyncio.create_task(self._send_all())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop sending; what still waits is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def put(self, message: str | bytes) -> None:
        """Send a message that must come, after those before it."""
        self._unsent += 1
        self._messages.put_nowait(message)

    def offer(self, message: str | bytes) -> bool:
        """Send a message only if nothing else waits to be sent; return whether it is sent."""
        if self._unsent:
            return False
        self.put(message)
        return True

    async def flush(self, seconds: float) -> None:
        """Wait until everything has been sent, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._messages.join()

    async def _send_all(self) -> None:
        is_connected = True
        while True:
            message = await self._messages.get()
            if is_connected:
                try:
                    await self._send(message)
                except Exception:  # noqa: BLE001 - whatever the server raises when the client is gone
                    is_connected = False
            self._unsent -= 1
            self._messages.task_done()
