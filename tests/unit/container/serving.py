"""An application behind the server of production."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypercorn import protocol
from hypercorn.asyncio import run, serve
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config
from hypercorn.protocol import h2, h11
from hypercorn.protocol.h2 import H2Protocol

from shared.container.protocols import limit_clients
from shared.container.server import listening_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def serving(app: Any, config: Config | None = None) -> AsyncIterator[int]:
    """Serve inside the context; yield the port, which takes connections at once."""
    config, stop = config or Config(), asyncio.Event()
    listening = listening_socket("127.0.0.1", 0)
    port = int(listening.getsockname()[1])
    config.bind = [f"fd://{listening.detach()}"]
    with pytest.MonkeyPatch.context() as patch:
        # limit_clients changes them for every server of the process.
        patch.setattr(run, "TCPServer", TCPServer)
        patch.setattr(protocol, "H2Protocol", H2Protocol)
        for module in (h11, h2):
            patch.setattr(module, "HTTPStream", module.HTTPStream)
            patch.setattr(module, "WSStream", module.WSStream)
        limit_clients(config)
        task = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
        try:
            yield port
        finally:
            stop.set()
            await task
