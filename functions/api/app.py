"""The application of the api: its routes, its errors, and which sites may call it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from functions.api.answers import problems
from functions.api.answers.body_limit import BodyLimitMiddleware
from functions.api.answers.documentation import AnswerHeadersMiddleware, describe
from functions.api.own_characters import KEY_HEADER
from functions.api.protection import app_check
from functions.api.protection.origins import OriginMiddleware
from functions.api.routes import create_router
from shared.http.origins import AllowedOriginsMiddleware
from shared.http.trace import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from functions.api.routes import Dependencies


def create_app(
    dependencies: Dependencies,
    allowed_origins: tuple[str, ...],
    allowed_hosts: tuple[str, ...] = ("*",),
) -> FastAPI:
    """Return the application.

    Args:
        dependencies: what the endpoints depend on.
        allowed_origins: the web sites whose pages may call it.
        allowed_hosts: the names under which requests may come; see OriginMiddleware.
    """

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
        headers=["Authorization", "Content-Type", app_check.HEADER, KEY_HEADER],
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
