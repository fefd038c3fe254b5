"""The application of the api: its routes, its errors, and the sites that may call it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from functions.api import problems, routes, visitors
from functions.api.problems import FILES, BodyLimitMiddleware, Problem
from functions.api.schemas import KEY_HEADER
from shared.runtime.logs import TraceMiddleware
from shared.runtime.origins import ANY, AllowedOriginsMiddleware, is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.api.dependencies import Dependencies

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Voice Avatar: the API</title>
<link rel="stylesheet" href="docs/static/swagger-ui.css">
<main id="description"></main>
<script src="docs/static/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({url: "openapi.json", dom_id: "#description"});</script>
</html>
"""


class ResponseHeadersMiddleware:
    """Adds the headers that restrict what a browser does with a response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # A response may have a policy of its own; browsers apply both.
                headers.append("Content-Security-Policy", "frame-ancestors 'none'")
                headers["X-Content-Type-Options"] = "nosniff"
                if scope["path"].startswith("/api/"):  # keys and signed addresses
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Values of `Sec-Fetch-Site` for a page of another origin (W3C Fetch Metadata, section 2.3).
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})


class OriginMiddleware:
    """Refuses requests with which a page of another site would change something.

    Browsers always send the page's origin in `Origin` or `Sec-Fetch-Site` with such a request. A
    request with neither header comes from a program and is served.
    """

    def __init__(
        self, app: ASGIApp, allowed_origins: Collection[str], allowed_hosts: Collection[str]
    ) -> None:
        self._app = app
        self._hosts = frozenset(allowed_hosts)
        self._allowed = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem(scope) if scope["type"] == "http" else None
        await (problem.response() if problem else self._app)(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if not is_own_host(headers.get("host", ""), self._hosts):
            detail = "The service does not use this host name; ask the operator to add it."
            return Problem(421, "misdirected_request", detail)
        if scope["method"] not in _CHANGING:
            return None
        host, origin = headers.get("host"), headers.get("origin")
        if origin is None:
            may_change = headers.get("sec-fetch-site") not in _OTHER_SITES
        else:
            may_change = is_allowed_origin(origin, host, self._allowed)
        if not may_change and ANY not in self._allowed:
            detail = (
                "Pages of this site may not change anything here; ask the operator to allow it."
            )
            return Problem(403, "origin_refused", detail)
        if scope["method"] == "POST":
            return _media_type_problem(headers, takes_files=scope["path"] == FILES)
        return None


def _media_type_problem(headers: Headers, *, takes_files: bool) -> Problem | None:
    """Refuse media types that a page can send to any site without a CORS preflight."""
    content_type = headers.get("content-type")
    if content_type is None:
        return None
    media_type = content_type.split(";")[0].strip().lower()
    if media_type == "application/json":
        return None
    # A browser sends a preflight before any of these, too.
    is_sound = media_type.startswith(("audio/", "video/", "application/octet-stream"))
    if takes_files and is_sound:
        return None
    detail = (
        "The body must be a sound: send Content-Type: audio/wav or the like."
        if takes_files
        else "The body must be JSON: send Content-Type: application/json, or neither type nor body."
    )
    return Problem(415, "unsupported_media_type", detail)


def create_app(
    dependencies: Dependencies,
    allowed_origins: tuple[str, ...],
    allowed_hosts: tuple[str, ...] = ("*",),
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # Cloud Run does not announce the end of a function; a server of the local cloud has one.
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
    app.state.dependencies = dependencies
    routers = [routes.router]
    if dependencies.own_characters is not None:
        # Imported here: the other starts do without.
        from functions.api import own_character_routes  # noqa: PLC0415

        routers.append(own_character_routes.router)

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    app.mount("/docs/static", StaticFiles(packages=[("fastapi_offline", "static")]))
    for router in routers:
        app.include_router(router)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Response(status_code=204)

    app.add_middleware(BodyLimitMiddleware)
    api_routes = [route for router in routers for route in router.routes]
    problems.install(app, api_routes, dependencies.retry_schedule)
    app.add_middleware(
        OriginMiddleware, allowed_origins=allowed_origins, allowed_hosts=allowed_hosts
    )
    app.add_middleware(
        AllowedOriginsMiddleware,
        allowed=allowed_origins,
        headers=["Authorization", "Content-Type", visitors.HEADER, KEY_HEADER],
    )
    app.add_middleware(ResponseHeadersMiddleware)
    app.add_middleware(TraceMiddleware)
    return app


def serve_page(app: FastAPI, web_root: Path, page_config: Mapping[str, Any]) -> None:
    """Serve the page beside the api, as the local cloud does; elsewhere any static host does."""

    @app.get("/config.json", include_in_schema=False)
    async def config() -> JSONResponse:
        return JSONResponse(dict(page_config), headers={"Cache-Control": "no-store"})

    app.mount("/", StaticFiles(directory=web_root, html=True, check_dir=False))
