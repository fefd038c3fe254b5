"""The routes of the conversion container."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.conversion.verification import MOST_BYTES
from shared.runtime.push import push_route
from shared.voices.voice import PassingError, VoiceError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from shared.conversion.characters import CharacterLender
    from shared.conversion.verification import Verifier
    from shared.conversion.worker import Worker
    from shared.ports import TokenVerifier


_LOG = logging.getLogger(__name__)


def convert_routes(
    worker: Worker, characters: CharacterLender, verifier: TokenVerifier
) -> list[BaseRoute]:
    """Build the routes of conversion messages and of the warm-up.

    `GET /warmup` makes Cloud Run start an instance if there is none. With `?character=ID` it
    answers when that character is loaded, so that Cloud Run gives the instance a CPU for the load.
    """

    async def warmup(request: Request) -> Response:
        cold, character = not worker.has_converted, request.query_params.get("character")
        _LOG.info("warm-up", extra={"event": "warmup", "cold": cold, "character": character})
        if character is not None:
            try:
                async with characters.lend(character):
                    pass
            except (VoiceError, PassingError) as error:
                # The voice's own attempt reports it.
                extra = {"event": "character_not_warm", "character": character}
                _LOG.warning("%s is not loaded: %s", character, error, extra=extra)
        return JSONResponse({"cold": cold})

    return [push_route("/push", verifier, worker.handle), Route("/warmup", warmup)]


def verification_route(verifier: Verifier) -> Route:
    """Build `POST /verifications`, whose body is a file; only the api may call it."""

    async def verify(request: Request) -> Response:
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > MOST_BYTES:
                break
        try:
            verification = await verifier.verify(bytes(data))
        except VoiceError as error:
            answer = {"code": error.code.value, "message": error.message}
            return JSONResponse(answer, 422)
        except PassingError:
            return JSONResponse({}, 503)
        return JSONResponse(verification.to_answer())

    return Route("/verifications", verify, methods=["POST"])
