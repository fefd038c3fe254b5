"""The application of a process whose worker converts voices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from conversion.serving.probes import Liveness, probes
from shared.http.trace import TraceMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from conversion.serving.probes import Readiness


class Converter(Liveness, Protocol):
    """Whoever converts voices; see conversion.worker.Worker."""

    @property
    def worked_seconds(self) -> float:
        """How long conversions have run, all of them together."""

    async def drain(self) -> None:
        """Hand back what is under way."""


class ConvertingApp(Starlette):
    """An application with the probes of start and of life; whoever serves it awaits `drain`.

    Args:
        routes: its own routes.
        worker: converts voices.
        decoder: must be ready before this instance is.
        drain: hands back what is under way, because the instance stops; the worker's if None.
        others: serves every other route; None if there is no other.
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        worker: Converter,
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
