"""`GET /metrics`: what each key has had today, in the text format of Prometheus."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from functions.compat.keys.access import OPERATOR, client_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.keys.metering import Meter

PATHS: Final = ("/metrics",)
_HELP: Final = {
    "requests": "Requests of today (UTC).",
    "characters": "Characters of text of today (UTC).",
    "seconds": "Seconds of recordings of today (UTC).",
}


def build(meter: Meter) -> Starlette:
    """Build the application."""

    async def metrics(request: Request) -> Response:
        if client_of(request.scope) not in {"", OPERATOR}:
            detail = "Only the operator's key may see what the others have."
            return refuse(HTTPStatus.FORBIDDEN, detail)
        return PlainTextResponse(_write(meter), media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/metrics", metrics)])


def refuse(status: HTTPStatus, message: str) -> Response:
    """Answer a refusal."""
    return JSONResponse({"detail": message}, status)


def _write(meter: Meter) -> str:
    usage = meter.usage()
    lines = []
    for unit, meaning in _HELP.items():
        name = f"voice_avatar_{unit}_today"
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        lines += [f'{name}{{key="{key}"}} {getattr(used, unit)}' for key, used in usage.items()]
    return "\n".join(lines) + "\n"
