"""Who may call: requests with a key, and pages of allowed sites."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from shared.http.origins import is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    Refuse = Callable[[HTTPStatus, str], Response]

KEY_PREFIX: Final = "key."
"""With what a subprotocol begins that holds the key."""

OPERATOR: Final = "operator"
"""Whose the key is that may see what the others have."""

CLIENT: Final = "voice_avatar.client"
"""Where the request's scope says whose key it carries; an empty text where none is needed."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may call.

    Attributes:
        keys: the keys that requests may carry, by the names of their owners; none if everybody may
            call.
        allowed_origins: the web sites whose pages may call.
        allowed_hosts: the names under which requests may come where no key is needed, `*` for all;
            addresses and `localhost` always may. A page of another site can give its own name this
            machine's address, and then call under that name (DNS rebinding).
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ("*",)

    def owner_of(self, carried: str) -> str | None:
        """Return whose key it is; None if it is nobody's."""
        found = None
        for owner, key in self.keys.items():
            # All are compared, so that the time tells nothing.
            if hmac.compare_digest(carried.encode(), key.encode()):
                found = owner
        return found


def client_of(scope: Scope) -> str:
    """Return whose key a request carries; an empty text where none is needed."""
    client: str = scope.get(CLIENT, "")
    return client


def takes_turns_as(scope: Scope) -> str | None:
    """Return as whom a request takes turns with others; None where no key tells clients apart."""
    return client_of(scope) or None


class AccessMiddleware:
    """ASGI middleware: refuses requests without a key, and those of pages of other sites.

    The key comes in the header that a dialect has for it, `xi-api-key`, `X-API-Key` or
    `Authorization: Bearer`. Clients that know no key send it as the password of an address such as
    `http://bot:KEY@host`.

    Args:
        app: what is protected.
        access: who may call.
        refuse: answers a refusal in the dialect's form.
    """

    def __init__(self, app: ASGIApp, access: Access, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, access = Headers(scope=scope), self._access
        if not access.keys and not is_own_host(headers.get("host", ""), access.allowed_hosts):
            detail = "Host not allowed; ask the operator to add it to ALLOWED_HOSTS."
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, detail)
        origin = headers.get("origin")
        if origin is not None and not is_allowed_origin(
            origin, headers.get("host"), access.allowed_origins
        ):
            detail = "Origin not allowed; ask the operator to allow it."
            return self._refuse(HTTPStatus.FORBIDDEN, detail)
        scope[CLIENT] = ""
        # A browser's question whether it may call carries no key.
        if not access.keys or scope.get("method") == "OPTIONS":
            return None
        owner = access.owner_of(_key_in(headers))
        if owner is None:
            detail = "Not authenticated; send the key that the operator has given you."
            return self._refuse(HTTPStatus.UNAUTHORIZED, detail)
        scope[CLIENT] = owner
        return None


def _key_in(headers: Headers) -> str:
    own = headers.get("xi-api-key") or headers.get("x-api-key")
    return own or _key_of(headers.get("authorization", "")) or _key_offered(headers)


def _key_offered(headers: Headers) -> str:
    """Return the key that a page offers as a subprotocol, as it can send no other header."""
    offered = headers.get("sec-websocket-protocol", "").split(",")
    keys = (each.strip().removeprefix(KEY_PREFIX) for each in offered if KEY_PREFIX in each)
    return next(keys, "")


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
