"""`POST /verifications`: asks a converter whether a file was made here."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from functions.api import schemas
from functions.api.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.api.uploads import Reservation, UploadMemory
    from functions.api.warmup import Identity

_LOG = logging.getLogger(__name__)

MOST_BYTES: Final = 20_000_000
BODY_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0  # for a converter to start, to reach the request and to verify

OPENAPI: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The file: at most 20 MB; the watermark is searched in its first minute.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@dataclass(frozen=True, slots=True)
class Verifications:
    client: httpx.AsyncClient
    url: str
    identity: Identity
    memory: UploadMemory

    async def verify(self, request: Request) -> schemas.Verification:
        with self.memory.reserve(request) as reservation:
            data = await _read(request, reservation)
            try:
                headers = dict(await self.identity())
                answer = await self.client.post(
                    self.url, content=data, headers=headers, timeout=ANSWER_SECONDS
                )
            except httpx.HTTPError as error:
                raise _unavailable(repr(error)) from error
        if answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
            refusal = answer.json()
            raise Problem(422, refusal["code"], refusal["message"])
        if answer.status_code != HTTPStatus.OK:
            raise _unavailable(f"the converter answered {answer.status_code}")
        return schemas.Verification.model_validate(answer.json())

    async def aclose(self) -> None:
        await self.client.aclose()


async def _read(request: Request, reservation: Reservation) -> bytes:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                reservation.add(len(piece))
                data += piece
                if len(data) > MOST_BYTES:
                    detail = f"The file has more than the {MOST_BYTES} bytes accepted."
                    raise Problem(413, "too_large", detail)
    except TimeoutError as error:
        detail = f"The file did not arrive within {BODY_SECONDS:g} seconds."
        raise Problem(408, "request_timeout", detail) from error
    return bytes(data)


def _unavailable(reason: str) -> Problem:
    _LOG.warning("file not verified: %s", reason, extra={"event": "unavailable"})
    detail = "Too many files are being verified just now; please try again."
    return Problem(503, "unavailable", detail, {"Retry-After": "5"})
