"""`POST /verifications`: passes a file on to a converter, which says whether it was made here."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx
from fastapi import APIRouter, Request  # noqa: TC002 - FastAPI reads the annotations

from functions.api import schemas
from functions.api.problems import Problem

if TYPE_CHECKING:
    from functions.api.limits import RequestLimits
    from functions.api.uploads import Reservation, UploadMemory
    from functions.api.warmup import Identity

_LOG = logging.getLogger(__name__)

MOST_BYTES: Final = 10_000_000
BODY_SECONDS: Final = 60.0
"""How long a file may take to arrive."""

ANSWER_SECONDS: Final = 60.0
"""How long a converter may take to start, to wait for its turn and to verify."""

OPENAPI: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The file itself: a sound of at most 60 s and 10 MB.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class Verifications:
    """Asks a converter about files; nothing of them is kept."""

    def __init__(
        self, client: httpx.AsyncClient, url: str, identity: Identity, memory: UploadMemory
    ) -> None:
        self._client = client
        self._url = url
        self._identity = identity
        self._memory = memory

    async def verify(self, request: Request) -> schemas.Verification:
        """Read a request's body and return what was found in it.

        Raises:
            Problem: it is too large or no sound, did not arrive in time, or there is no place now.
        """
        with self._memory.reserve(request) as reservation:
            data = await _read(request, reservation)
            answer = await self._ask(data)
        if answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
            said = answer.json()
            raise Problem(422, said["code"], said["message"])
        if answer.status_code != HTTPStatus.OK:
            raise _unavailable(f"the converter answered {answer.status_code}")
        return schemas.Verification.model_validate(answer.json())

    async def _ask(self, data: bytes) -> httpx.Response:
        try:
            return await self._client.post(
                self._url,
                content=data,
                headers=dict(await self._identity.headers()),
                timeout=ANSWER_SECONDS,
            )
        except httpx.HTTPError as error:
            raise _unavailable(repr(error)) from error

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()


def add_verifications(
    router: APIRouter, verifications: Verifications, limits: RequestLimits, admitted: Any
) -> None:
    """Add the route."""

    @router.post(
        "/verifications",
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 408, 413, 415, 422, 429, 503),
        openapi_extra=OPENAPI,
    )
    async def verify_file(request: Request) -> schemas.Verification:
        """Say whether a file was made here: by its signed statement and its watermark.

        Send the file as the body, with any media type of sound or `application/octet-stream`.
        Nothing of it is kept.
        """
        with limits.uploading(request):
            return await verifications.verify(request)


async def _read(request: Request, reservation: Reservation) -> bytes:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                reservation.add(len(piece))
                data += piece
                if len(data) > MOST_BYTES:
                    raise Problem(
                        413, "too_large", f"The file has more than the {MOST_BYTES} bytes accepted."
                    )
    except TimeoutError as error:
        detail = f"The file did not arrive within {BODY_SECONDS:g} seconds."
        raise Problem(408, "request_timeout", detail) from error
    return bytes(data)


def _unavailable(reason: str) -> Problem:
    _LOG.warning("a file is not verified: %s", reason, extra={"event": "unavailable"})
    detail = "Too many files are being verified just now; please try again."
    return Problem(503, "unavailable", detail, {"Retry-After": "5"})
