"""The interactive description of the api at `/docs`, and the header that forbids framing.

FastAPI's own page at `/docs` loads whatever version of its scripts a public server gives out. Here
script and style come with the package `fastapi-offline` and are served by the api itself, so that
the page runs nothing else and works without the internet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_START: Final = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#description"});'

_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Voice Avatar: the API</title>
<link rel="stylesheet" href="docs/static/swagger-ui.css">
<main id="description"></main>
<script src="docs/static/swagger-ui-bundle.js"></script>
<script>{_START}</script>
</html>
"""


def describe(app: FastAPI) -> None:
    """Serve the page at `/docs`."""

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    app.mount("/docs/static", StaticFiles(packages=[("fastapi_offline", "static")]))


class AnswerHeadersMiddleware:
    """ASGI middleware: what browsers must not do with an answer, whatever it is.

    No page of another site may show it in a frame, none may take it for another kind of file, and
    answers of the API, which have keys and signed addresses, are not kept unless they say so.

    Args:
        app: serves the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # An answer may have a policy of its own; browsers apply both.
                headers.append("Content-Security-Policy", "frame-ancestors 'none'")
                headers["X-Content-Type-Options"] = "nosniff"
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)
