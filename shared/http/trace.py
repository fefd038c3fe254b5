"""The trace of an HTTP request, as Google's infrastructure sends it in a header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.process.logs import about_trace

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

# https://www.w3.org/TR/trace-context/ and Google's older header, which begins with the trace id.
_HEADERS: Final = {
    b"traceparent": re.compile(rb"^[0-9a-f]{2}-([0-9a-f]{32})-"),
    b"x-cloud-trace-context": re.compile(rb"^([0-9a-f]{32})"),
}


class TraceMiddleware:
    """ASGI middleware: adds the request's trace to every entry that is logged during it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with its trace set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with about_trace(_trace_id(scope)):
            await self._app(scope, receive, send)


def _trace_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        pattern = _HEADERS.get(name)
        if pattern and (found := pattern.match(value)):
            return str(found[1].decode())
    return None
