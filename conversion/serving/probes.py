"""The routes by which Cloud Run learns how an instance is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request


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
    """Build `GET /readyz` and `GET /healthz`, the probes of start and of life.

    Args:
        decoder: must be ready before this instance is.
        worker: says whether the process can go on.
    """

    async def readyz(_request: Request) -> Response:
        return Response(status_code=204 if decoder.is_ready else 503)

    async def healthz(_request: Request) -> Response:
        return Response(status_code=503 if worker.is_stuck else 204)

    return [Route("/readyz", readyz), Route("/healthz", healthz)]
