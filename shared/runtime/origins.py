"""The web sites whose pages may use the service."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from starlette.middleware.cors import CORSMiddleware

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.types import ASGIApp

ANY: Final = "*"
ANY_PORT: Final = ":*"  # the end of an allowed origin with any port: `http://localhost:*`


def is_allowed_origin(origin: str, host: str | None, allowed: Collection[str]) -> bool:
    """Return whether pages of an origin may use the service; those of `host` always may."""
    if ANY in allowed or origin in allowed or (host and _split(origin).netloc == host):
        return True
    pattern = _any_port_pattern(allowed)
    return pattern is not None and re.fullmatch(pattern, origin) is not None


def is_own_host(host: str, allowed: Collection[str]) -> bool:
    """Return whether a request was sent to this service under a name of its own.

    A page may give its own site's name the address of this machine (DNS rebinding); then a browser
    takes the service for a part of that site. It can't give away addresses and `localhost`, so
    `allowed` has only the other names of the service.
    """
    name = _split(f"//{host}").hostname or ""
    if ANY in allowed or name in allowed or name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class AllowedOriginsMiddleware(CORSMiddleware):
    """Middleware that allows pages of the allowed origins to read answers (CORS)."""

    def __init__(self, app: ASGIApp, allowed: Collection[str], headers: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=[origin for origin in allowed if not origin.endswith(ANY_PORT)],
            allow_origin_regex=_any_port_pattern(allowed),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=headers,
            expose_headers=["Retry-After", "X-Unread-Text"],
            max_age=3600,
        )


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _any_port_pattern(allowed: Collection[str]) -> str | None:
    origins = [each.removesuffix(ANY_PORT) for each in allowed if each.endswith(ANY_PORT)]
    return "|".join(rf"{re.escape(origin)}(:[0-9]+)?" for origin in origins) or None
