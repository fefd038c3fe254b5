"""An application that does nothing but read what it is sent: what is left is the server's cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request


async def take(request: Request) -> Response:
    """Read a body as it comes and answer with nothing."""
    async for _ in request.stream():
        pass
    return Response(status_code=204)


app = Starlette(routes=[Route("/", take, methods=["GET", "POST"])])
