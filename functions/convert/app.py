"""The HTTP side of the conversion container."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.http.push import push_route
from shared.http.trace import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from functions.convert.worker import Worker
    from shared.ports.tokens import TokenVerifier

_LOG = logging.getLogger(__name__)


class Readiness(Protocol):
    """Something that must be ready before recordings can be converted."""

    @property
    def is_ready(self) -> bool:
        """Whether it is ready."""
        ...


class ConvertApp(Starlette):
    """The application of the container.

    Args:
        worker: handles the messages.
        routes: the application's routes.
    """

    def __init__(self, worker: Worker, routes: Sequence[BaseRoute]) -> None:
        super().__init__(routes=routes, middleware=[Middleware(TraceMiddleware)])
        self.worker = worker


def create_app(
    worker: Worker,
    verifier: TokenVerifier,
    decoder: Readiness,
) -> ConvertApp:
    """Return the application.

    `POST /push` takes conversion messages. `GET /warmup` answers when the instance can convert, so
    that Cloud Run starts an instance if there is none. `GET /readyz` answers whether the decoder is
    ready, and `GET /healthz`, the liveness probe, whether the process can go on.

    Args:
        worker: handles the messages.
        verifier: decides who may push.
        decoder: must be ready before this instance is.
    """

    async def warmup(_request: Request) -> Response:
        cold = not worker.has_converted
        _LOG.info("warm-up", extra={"event": "warmup", "cold": cold})
        return JSONResponse({"cold": cold})

    async def readyz(_request: Request) -> Response:
        return Response(status_code=204 if decoder.is_ready else 503)

    async def healthz(_request: Request) -> Response:
        return Response(status_code=503 if worker.is_stuck else 204)

    routes = [
        push_route("/push", verifier, worker.handle),
        Route("/warmup", warmup),
        Route("/readyz", readyz),
        Route("/healthz", healthz),
    ]
    return ConvertApp(worker, routes)
