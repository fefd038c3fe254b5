"""Keeps web pages of other origins away from the JSON API of a developer's machine.

The JSON API trusts whoever reaches it, so a request must not come from a page that the developer
happens to look at. A page whose name was rebound to 127.0.0.1 sends its own name as Host; a page of
another origin sends Origin or Sec-Fetch-Site. The unmodified client libraries send neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from infra.local.storage.protocol.errors import AccessDeniedError
from infra.local.storage.routes.answers import json_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


class Guarded:
    """An application that answers only requests whose headers pass a check."""

    def __init__(self, app: ASGIApp, check: Callable[[Mapping[str, str]], None]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        try:
            self._check(Headers(scope=scope))
        except AccessDeniedError as error:
            await json_answer(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def check_host(headers: Mapping[str, str]) -> None:
    """Accept a loopback Host only.

    Raises:
        AccessDeniedError: the request names another host.
    """
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in _LOOPBACK_HOSTS:
        raise AccessDeniedError(f"This server answers 127.0.0.1 and localhost, not {host!r}.")


def check_not_a_web_page(headers: Mapping[str, str]) -> None:
    """Refuse what a browser sends on behalf of a page.

    Raises:
        AccessDeniedError: the request has an Origin, or a Sec-Fetch-Site other than none.
    """
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise AccessDeniedError(
            "The JSON API of the local cloud is not for web pages: use a signed URL."
        )
