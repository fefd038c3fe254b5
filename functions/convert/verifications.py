"""`POST /verifications`: was a file made here?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conversion.origin.verifying import MOST_BYTES
from shared.errors import PassingError
from shared.voices.voice import VoiceError

if TYPE_CHECKING:
    from starlette.requests import Request

    from conversion.origin.verifying import Verifier


def verification_route(verifier: Verifier) -> Route:
    """Return the route; the body is the file, and only the api may call it.

    It answers 200 with what was found, 422 with `code` and `message` for a file that cannot be
    verified, and 503 while too many others are.
    """

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
