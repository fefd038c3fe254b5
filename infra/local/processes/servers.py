"""Servers of ASGI applications in this process, and requests that are passed on to others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config

from infra.local.processes.children import READY_SECONDS, StartError
from shared.container.protocols import limit_clients
from shared.container.server import UnreadBodies

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.types import Send

# They describe one connection, not the message (RFC 9110, 7.6.1).
_CONNECTION_HEADERS: Final = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)


class Servers:
    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._serving: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def start(self, app: Any, url: str) -> None:
        config = Config()
        config.bind = [url.removeprefix("http://")]
        config.graceful_timeout = 1.0
        config.loglevel = "WARNING"
        limit_clients(config)
        reading: Any = UnreadBodies(app)
        serving = asyncio.create_task(serve(reading, config, shutdown_trigger=self._stop.wait))
        self._serving[serving] = url

    async def wait_until_ready(self, client: httpx.AsyncClient) -> None:
        """Wait until every server sends an answer, with any status."""
        for serving, url in self._serving.items():
            try:
                async with asyncio.timeout(READY_SECONDS):
                    while True:
                        with suppress(httpx.TransportError):
                            await client.get(f"{url}/healthz")
                            break
                        if serving.done():
                            serving.result()
                        await asyncio.sleep(0)
            except TimeoutError:
                raise StartError(f"{url} did not get ready within {READY_SECONDS:g} s") from None

    async def crashed(self) -> str:
        done, _ = await asyncio.wait(self._serving, return_when=asyncio.FIRST_COMPLETED)
        return self._serving[done.pop()]


def forwarded(
    client: httpx.AsyncClient, request: Request, address: str
) -> AbstractAsyncContextManager[httpx.Response]:
    """Send a request on to `HOST:PORT`; the answer is streamed in the context."""
    has_body = {"content-length", "transfer-encoding"} & set(request.headers)
    return client.stream(
        request.method,
        str(request.url.replace(scheme="http", netloc=address)),
        headers=message_headers(request.headers.raw),
        content=request.stream() if has_body else None,
    )


async def pass_on(answer: httpx.Response, send: Send) -> None:
    headers = message_headers(answer.headers.raw)
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    async for chunk in answer.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def message_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers that describe a message, not its connection."""
    lowered = ((name.lower(), value) for name, value in headers)
    return [(name, value) for name, value in lowered if name not in _CONNECTION_HEADERS]
