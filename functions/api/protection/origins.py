"""Whether the page that sends a request may change anything.

CORS only keeps a page from reading answers. A request that needs no preflight is sent anyway, by a
page of any site, from the addresses of that site's visitors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from functions.api.answers.body_limit import FILES
from functions.api.answers.problems import Problem
from shared.http.origins import ANY, is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` for a page of another origin (W3C Fetch Metadata, section 2.3)."""


class OriginMiddleware:
    """ASGI middleware: refuses requests with which a page of another site would change something.

    Browsers always say in `Origin` or `Sec-Fetch-Site` which page sends such a request. A request
    with neither header comes from a program and is served.

    Args:
        app: serves the other requests.
        allowed_origins: the sites whose pages may send them; "*" means any. The origin that the
            request is sent to is always allowed.
        allowed_hosts: the names under which requests may come, beside addresses and `localhost`;
            "*" for all.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_origins: Collection[str],
        allowed_hosts: Collection[str] = (ANY,),
    ) -> None:
        self._app = app
        self._hosts = frozenset(allowed_hosts)
        self._allowed = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        problem = self._problem(scope) if scope["type"] == "http" else None
        await (problem.response() if problem else self._app)(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if not is_own_host(headers.get("host", ""), self._hosts):
            detail = "The service is not called so; ask the operator to add this name."
            return Problem(421, "misdirected_request", detail)
        if scope["method"] not in _CHANGING:
            return None
        problem = self._objection(headers)
        if problem is None and scope["method"] == "POST":
            problem = _objection_to_type(headers, takes_files=scope["path"] == FILES)
        return problem

    def _objection(self, headers: Headers) -> Problem | None:
        if ANY in self._allowed:
            return None
        origin = headers.get("origin")
        if origin is None:
            is_refused = headers.get("sec-fetch-site") in _OTHER_SITES
        else:
            is_refused = not is_allowed_origin(origin, headers.get("host"), self._allowed)
        if not is_refused:
            return None
        detail = "Pages of this site may not change anything here; ask the operator to allow it."
        return Problem(403, "origin_refused", detail)


def _objection_to_type(headers: Headers, *, takes_files: bool) -> Problem | None:
    """Refuse what a form or a script can send to any site without being asked for permission."""
    content_type = headers.get("content-type")
    if content_type is None:
        return None
    media_type = content_type.split(";")[0].strip().lower()
    if media_type == "application/json":
        return None
    if takes_files:
        # A browser asks for permission before it sends any of these.
        if media_type == "application/octet-stream" or media_type.startswith(("audio/", "video/")):
            return None
        detail = "The body must be a sound: send Content-Type: audio/wav or the like."
        return Problem(415, "unsupported_media_type", detail)
    detail = "The body must be JSON: send Content-Type: application/json, or neither type nor body."
    return Problem(415, "unsupported_media_type", detail)
