"""The HTTP side of `live`: the WebSocket and the probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute

from functions.convert.live.protocol import PATH
from shared.http.trace import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from functions.convert.app import Readiness
    from functions.convert.live.service import LiveService
    from functions.convert.worker import Worker


class LiveApp(Starlette):
    """The application of `live`.

    Args:
        routes: its routes.
        drain: hands back what is under way, because the instance stops.
    """

    def __init__(self, routes: Sequence[BaseRoute], drain: Callable[[], Awaitable[None]]) -> None:
        super().__init__(routes=routes, middleware=[Middleware(TraceMiddleware)])
        self.drain = drain


def create_app(
    service: LiveService,
    worker: Worker,
    decoder: Readiness,
    drain: Callable[[], Awaitable[None]],
    voicevox: ASGIApp | None = None,
) -> LiveApp:
    """Return the application.

    `/live` takes WebSockets. `GET /readyz` answers whether the decoder is ready, and
    `GET /healthz`, the liveness probe, whether the process can go on.

    Args:
        service: serves the WebSockets.
        worker: does the conversions.
        decoder: must be ready before this instance is.
        drain: hands back what is under way.
        voicevox: serves every other route; None if there is no other.
    """

    async def readyz(_request: Request) -> Response:
        return Response(status_code=204 if decoder.is_ready else 503)

    async def healthz(_request: Request) -> Response:
        return Response(status_code=503 if worker.is_stuck else 204)

    routes: list[BaseRoute] = [
        WebSocketRoute(PATH, service.serve),
        Route("/readyz", readyz),
        Route("/healthz", healthz),
    ]
    if voicevox is not None:
        routes.append(Mount("/", voicevox))
    return LiveApp(routes, drain)
