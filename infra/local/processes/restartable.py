"""An ASGI application that is replaced by a new one while its server goes on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Receive, Scope, Send


class RestartableApp:
    """Stands for the latest application that `start` made; use it as an async context manager.

    Requests that come during a restart wait for its end.

    Args:
        start: starts an application; leaving its block stops the application.
    """

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[ASGIApp]]) -> None:
        self._start = start
        self._stack = AsyncExitStack()
        self._restarting = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __aenter__(self) -> Self:
        """Start the first application."""
        await self.restart()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop the application."""
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application."""
        async with self._restarting:
            app = self._app
        if app is None:
            raise RuntimeError("the application is not started")
        await app(scope, receive, send)

    async def restart(self) -> None:
        """Stop the application and start a new one.

        Raises:
            Exception: whatever `start` raises; the next restart tries again.
        """
        async with self._restarting:
            self._app = None
            await self._stack.aclose()
            self._app = await self._stack.enter_async_context(self._start())
