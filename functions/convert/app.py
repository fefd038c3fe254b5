"""The HTTP side of the conversion container."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conversion.serving.probes import probes
from shared.errors import PassingError
from shared.http.push import push_route
from shared.http.trace import TraceMiddleware
from shared.voices.voice import VoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from conversion.characters.lending import Characters
    from conversion.serving.probes import Readiness
    from conversion.worker import Worker
    from shared.ports.tokens import TokenVerifier

_LOG = logging.getLogger(__name__)


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
    characters: Characters,
    verifier: TokenVerifier,
    decoder: Readiness,
    others: Sequence[BaseRoute] = (),
) -> ConvertApp:
    """Return the application.

    `POST /push` takes conversion messages. `GET /warmup` answers when the instance can convert, so
    that Cloud Run starts an instance if there is none; with `?character=ID` it answers when that
    character is loaded, so that Cloud Run gives the instance a CPU for the load. `GET /readyz`
    answers whether the decoder is ready, and `GET /healthz`, the liveness probe, whether the
    process can go on.

    Args:
        worker: handles the messages.
        characters: lends the character that a warm-up names.
        verifier: decides who may push.
        decoder: must be ready before this instance is.
        others: further routes.
    """

    async def warmup(request: Request) -> Response:
        cold, character = not worker.has_converted, request.query_params.get("character")
        _LOG.info("warm-up", extra={"event": "warmup", "cold": cold, "character": character})
        if character is not None:
            await _load(characters, character)
        return JSONResponse({"cold": cold})

    routes = [
        push_route("/push", verifier, worker.handle),
        Route("/warmup", warmup),
        *others,
        *probes(decoder, worker),
    ]
    return ConvertApp(worker, routes)


async def _load(characters: Characters, character_id: str) -> None:
    """Load a character; a failure is only logged, because the voice's own attempt tells of it."""
    try:
        async with characters.using(character_id):
            pass
    except (VoiceError, PassingError) as error:
        extra = {"event": "character_not_warm", "character": character_id}
        _LOG.warning("%s is not loaded: %s", character_id, error, extra=extra)
