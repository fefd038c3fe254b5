"""The HTTP side of `live`: the WebSocket and the probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, WebSocketRoute

from conversion.serving.probes import probes
from functions.live.messages.protocol import PATH
from shared.http.trace import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from conversion.serving.probes import Readiness
    from conversion.worker import Worker
    from functions.live.service import LiveService


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
    others: ASGIApp | None = None,
) -> LiveApp:
    """Return the application.

    `/live` takes WebSockets. `GET /readyz` answers whether the decoder is ready, and
    `GET /healthz`, the liveness probe, whether the process can go on.

    Args:
        service: serves the WebSockets.
        worker: does the conversions.
        decoder: must be ready before this instance is.
        drain: hands back what is under way.
        others: serves every other route; None if there is no other.
    """
    routes: list[BaseRoute] = [
        WebSocketRoute(PATH, service.serve),
        *probes(decoder, worker),
    ]
    if others is not None:
        routes.append(Mount("/", others))
    return LiveApp(routes, drain)
