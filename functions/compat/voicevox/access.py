"""Who may call the VOICEVOX routes: requests with the key, and pages of allowed sites."""

from __future__ import annotations

import base64
import binascii
import hmac
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from shared.http.origins import is_allowed_origin

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send


class AccessMiddleware:
    """ASGI middleware: refuses requests without the key, and those of pages of other sites.

    Clients of VOICEVOX know no key. So it is also taken as the password of an address such as
    `http://bot:KEY@host`, which HTTP clients send by themselves.

    Args:
        app: what is protected.
        key: what requests must carry; None if everybody may call.
        allowed_origins: the web sites whose pages may call.
        allowed_hosts: the names under which requests may come that carry no key, `*` for all;
            addresses and `localhost` always may. A page of another site can give its own name this
            machine's address, and then call under that name (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        key: str | None,
        allowed_origins: Collection[str],
        allowed_hosts: Collection[str] = ("*",),
    ) -> None:
        self._app = app
        self._key = key
        self._allowed_origins = frozenset(allowed_origins)
        self._allowed_hosts = frozenset(allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if self._key is None and not self._is_own(headers.get("host", "")):
            detail = "Host not allowed; ask the operator to add it to ALLOWED_HOSTS."
            return JSONResponse({"detail": detail}, HTTPStatus.MISDIRECTED_REQUEST)
        origin = headers.get("origin")
        if origin is not None and not is_allowed_origin(
            origin, headers.get("host"), self._allowed_origins
        ):
            detail = "Origin not allowed; ask the operator to allow it."
            return JSONResponse({"detail": detail}, HTTPStatus.FORBIDDEN)
        # A browser's question whether it may call carries no key.
        if self._key is None or scope["method"] == "OPTIONS":
            return None
        carried = headers.get("x-api-key") or _key_of(headers.get("authorization", ""))
        if hmac.compare_digest(carried.encode(), self._key.encode()):
            return None
        challenge = {"WWW-Authenticate": 'Basic realm="voicevox"'}
        return JSONResponse({"detail": "Not authenticated"}, HTTPStatus.UNAUTHORIZED, challenge)

    def _is_own(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        return "*" in self._allowed_hosts or name in self._allowed_hosts or _is_address(name)


def _is_address(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _key_of(authorization: str) -> str:
    """Return the key in an `Authorization` header, an empty text if there is none."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
