"""The way of web pages to Firestore's emulator.

The emulator obeys every page of every site, also one that calls itself the database's owner. So
it has an address that pages can't guess, and only the pages of the allowed sites get through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from infra.local.processes.servers import forwarded, pass_on
from shared.runtime.origins import is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

_SERVICE: Final = "/google.firestore.v1.Firestore/"
"""Firebase's SDK uses these paths; the emulator's own ones delete databases."""

_OWNER: Final = "bearer owner"  # with this token the emulator skips the rules


def create_app(client: httpx.AsyncClient, emulator: str, origins: Collection[str]) -> ASGIApp:
    """Return an application that passes on what the pages of some sites ask the emulator."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        refusal = refusal_of(request, origins)
        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
            return
        try:
            async with forwarded(client, request, emulator) as answer:
                await pass_on(answer, send)
        except (httpx.TransportError, ClientDisconnect):
            await PlainTextResponse("Firestore's emulator does not answer", 503)(
                scope, receive, send
            )

    return serve


def refusal_of(request: Request, origins: Collection[str]) -> str | None:
    headers = request.headers
    if not is_own_host(headers.get("host", ""), ()):
        return "expected 127.0.0.1 or localhost as Host"
    if not is_allowed_origin(headers.get("origin", ""), None, origins):
        return f"pages of this site may not read voices; allowed are {', '.join(origins)}"
    if headers.get("authorization", "").strip().lower() == _OWNER:
        return "a page is not the owner of the database"
    if not request.url.path.startswith(_SERVICE):
        return f"expected a path below {_SERVICE}"
    return None
