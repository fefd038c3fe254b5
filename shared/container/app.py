"""The routes by which Cloud Run learns how an instance is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route

from shared.runtime.logs import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp


class Readiness(Protocol):
    """Something that must be ready before recordings can be converted."""

    @property
    def is_ready(self) -> bool:
        """Whether it is ready."""
        ...


class Liveness(Protocol):
    """Something that may be unable to go on."""

    @property
    def is_stuck(self) -> bool:
        """Whether this process must be replaced."""
        ...


def probes(decoder: Readiness, worker: Liveness) -> list[Route]:
    """Build `GET /readyz` and `GET /healthz`, the probes of start and of life."""

    async def readyz(_request: Request) -> Response:
        return Response(status_code=204 if decoder.is_ready else 503)

    async def healthz(_request: Request) -> Response:
        return Response(status_code=503 if worker.is_stuck else 204)

    return [Route("/readyz", readyz), Route("/healthz", healthz)]


class DrainableWorker(Liveness, Protocol):
    """Whoever converts voices; see shared.conversion.worker.Worker."""

    @property
    def worked_seconds(self) -> float:
        """How long conversions have run, all of them together."""

    async def drain(self) -> None:
        """Hand back what is under way."""


class ConvertingApp(Starlette):
    """An application with the probes of start and of life; whoever serves it awaits `drain`.

    Args:
        drain: hands back what is under way, because the instance stops; the worker's if None.
        others: serves every other route; None if there is no other.
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        worker: DrainableWorker,
        decoder: Readiness,
        *,
        drain: Callable[[], Awaitable[None]] | None = None,
        others: ASGIApp | None = None,
    ) -> None:
        rest = [] if others is None else [Mount("/", others)]
        super().__init__(
            routes=[*routes, *probes(decoder, worker), *rest],
            middleware=[Middleware(TraceMiddleware)],
        )
        self.worker = worker
        self.drain = drain or worker.drain
