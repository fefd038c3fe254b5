"""The HTTP side of the conversion container."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.http.push import push_route
from shared.logs import TraceMiddleware

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.convert.worker import Worker
    from shared.google.tokens import TokenVerifier

_LOG = logging.getLogger(__name__)


class Readiness(Protocol):
    """Something that must work before recordings can be converted."""

    @property
    def is_ready(self) -> bool:
        """Whether it works."""
        ...


def create_app(
    worker: Worker,
    verifier: TokenVerifier,
    decoder: Readiness,
) -> Starlette:
    """Return the application.

    `POST /push` takes conversion messages; `GET /warmup` answers when the instance can convert,
    which starts one where there is none; `GET /readyz` and `GET /healthz` answer probes.

    Args:
        worker: handles the messages.
        verifier: decides who may push.
        decoder: must be ready for this instance to be.
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
    return Starlette(routes=routes, middleware=[Middleware(TraceMiddleware)])
