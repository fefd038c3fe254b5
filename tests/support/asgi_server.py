"""ASGI applications behind the server that production uses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from infra.local.configuration.names import Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@asynccontextmanager
async def served(app: Any, *prepare: Callable[[Config], None]) -> AsyncIterator[int]:
    with Ports() as ports:
        server, stop = Config(), asyncio.Event()
        (port,) = ports.free(1)
        server.bind, server.loglevel = [f"127.0.0.1:{port}"], "ERROR"
        for each in prepare:
            each(server)
        serving = asyncio.create_task(serve(app, server, shutdown_trigger=stop.wait))
        async with asyncio.timeout(10):
            while True:
                with suppress(ConnectionRefusedError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.01)
        yield port
        stop.set()
        await serving
