"""The application of the api: its routes, its errors, and which sites may call it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from functions.api import problems, visitors
from functions.api.problems import FILES, BodyLimitMiddleware, Problem
from functions.api.routes import create_router
from functions.api.schemas import KEY_HEADER
from shared.runtime.logs import TraceMiddleware
from shared.runtime.origins import ANY, AllowedOriginsMiddleware, is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.api.routes import Dependencies


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


_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` for a page of another origin (W3C Fetch Metadata, section 2.3)."""


class OriginMiddleware:
    """ASGI middleware: refuses requests with which a page of another site would change something.

    Browsers always say in `Origin` or `Sec-Fetch-Site` which page sends such a request. A request
    with neither header comes from a program and is served.

    Args:
        allowed_origins: the sites whose pages may send them; "*" means any. The origin that the
            request is sent to is always allowed.
        allowed_hosts: the names under which requests may come, beside addresses and `localhost`;
            "*" for all.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_origins: Collection[str],
        allowed_hosts: Collection[str] = (ANY,),
    ) -> None:
        self._app = app
        self._hosts = frozenset(allowed_hosts)
        self._allowed = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        problem = self._problem(scope) if scope["type"] == "http" else None
        await (problem.response() if problem else self._app)(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if not is_own_host(headers.get("host", ""), self._hosts):
            detail = "The service is not called so; ask the operator to add this name."
            return Problem(421, "misdirected_request", detail)
        if scope["method"] not in _CHANGING:
            return None
        problem = self._objection(headers)
        if problem is None and scope["method"] == "POST":
            problem = _objection_to_type(headers, takes_files=scope["path"] == FILES)
        return problem

    def _objection(self, headers: Headers) -> Problem | None:
        if ANY in self._allowed:
            return None
        origin = headers.get("origin")
        if origin is None:
            is_refused = headers.get("sec-fetch-site") in _OTHER_SITES
        else:
            is_refused = not is_allowed_origin(origin, headers.get("host"), self._allowed)
        if not is_refused:
            return None
        detail = "Pages of this site may not change anything here; ask the operator to allow it."
        return Problem(403, "origin_refused", detail)


def _objection_to_type(headers: Headers, *, takes_files: bool) -> Problem | None:
    """Refuse what a form or a script can send to any site without being asked for permission."""
    content_type = headers.get("content-type")
    if content_type is None:
        return None
    media_type = content_type.split(";")[0].strip().lower()
    if media_type == "application/json":
        return None
    if takes_files:
        # A browser asks for permission before it sends any of these.
        if media_type == "application/octet-stream" or media_type.startswith(("audio/", "video/")):
            return None
        detail = "The body must be a sound: send Content-Type: audio/wav or the like."
        return Problem(415, "unsupported_media_type", detail)
    detail = "The body must be JSON: send Content-Type: application/json, or neither type nor body."
    return Problem(415, "unsupported_media_type", detail)


def create_app(
    dependencies: Dependencies,
    allowed_origins: tuple[str, ...],
    allowed_hosts: tuple[str, ...] = ("*",),
) -> FastAPI:
    """Return the application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # A function is not told its end; a server of the local cloud is.
        yield
        await dependencies.warm_up.aclose()
        await dependencies.verifications.aclose()

    app = FastAPI(
        title="Voice Avatar",
        version="1",
        description="Speak a sentence and hear it in a character's voice.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    describe(app)
    router = create_router(dependencies)
    app.include_router(router)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Response(status_code=204)

    app.add_middleware(BodyLimitMiddleware)
    problems.install(app, router.routes, dependencies.line)
    app.add_middleware(
        OriginMiddleware, allowed_origins=allowed_origins, allowed_hosts=allowed_hosts
    )
    app.add_middleware(
        AllowedOriginsMiddleware,
        allowed=allowed_origins,
        headers=["Authorization", "Content-Type", visitors.HEADER, KEY_HEADER],
    )
    app.add_middleware(AnswerHeadersMiddleware)
    app.add_middleware(TraceMiddleware)
    return app


def serve_page(app: FastAPI, web_root: Path, page_config: Mapping[str, Any]) -> None:
    """Serve the page beside the api, as the local cloud does; elsewhere any static host does."""

    @app.get("/config.json", include_in_schema=False)
    async def config() -> JSONResponse:
        return JSONResponse(dict(page_config), headers={"Cache-Control": "no-store"})

    app.mount("/", StaticFiles(directory=web_root, html=True, check_dir=False))
