"""The storage server as an ASGI application, and the guard in front of it.

The JSON API trusts every caller, so a request must not come from a page that the developer happens
to look at. A page whose name was rebound to 127.0.0.1 sends its own name as Host; a page of another
origin sends Origin or Sec-Fetch-Site. The unmodified client libraries send neither.
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from infra.local.storage import errors
from infra.local.storage.json_api import JsonApi
from infra.local.storage.notifications import Notifications, Publish, PublishPatience
from infra.local.storage.objects import Buckets
from infra.local.storage.requests import check_framing
from infra.local.storage.uploads import UploadApi
from infra.local.storage.xml_api import XmlApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.storage.signed_urls import HmacKey

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def create_app(
    *,
    root: Path,
    publish: Publish,
    keys: Mapping[str, RSAPublicKey | HmacKey],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    patience: PublishPatience | None = None,
) -> Starlette:
    """Return the storage server, which needs the lifespan protocol and is empty at each start.

    Args:
        patience: how long to wait for and between attempts to publish.
    """

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, ASGIApp]]:
        notifications = Notifications(
            publish, patience or PublishPatience(), logging.getLogger(__name__)
        )
        buckets = Buckets(notifications, now)
        with _folder_in(root) as folder:
            try:
                xml_api = XmlApi(buckets, folder, keys, now)
                yield {"api": _routed(buckets, UploadApi(buckets, folder), xml_api)}
            finally:
                await notifications.aclose()

    return Starlette(routes=[Mount("/", app=_guarded(_serve, _check_host))], lifespan=lifespan)


@contextmanager
def _folder_in(root: Path) -> Iterator[Path]:
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="contents-", dir=root, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Route by the undecoded path: a %2F in an object's name is no separator."""
    raw_path = cast("bytes", scope["raw_path"]).partition(b"?")[0].decode("latin-1")
    api: ASGIApp = scope["state"]["api"]
    await api({**scope, "path": raw_path, "root_path": ""}, receive, send)


def _routed(buckets: Buckets, uploads: UploadApi, xml_api: XmlApi) -> ASGIApp:
    def xml_error(error: errors.StorageError, request: Request) -> Response:
        response = errors.xml_answer(error)
        if request.path_params.get("object"):
            response.headers.update(xml_api.cors_headers(request))
        return response

    def json_app(routes: list[Route]) -> ASGIApp:
        app = _app(routes, lambda error, _request: errors.json_answer(error))
        return _guarded(app, _check_not_a_web_page)

    json_routes = JsonApi(buckets).routes()
    return Starlette(
        routes=[
            Mount("/storage/v1", json_app(json_routes)),
            Mount("/download/storage/v1", json_app(json_routes)),
            Mount("/upload/storage/v1", json_app(uploads.routes())),
            Mount("/", _app(xml_api.routes(), xml_error)),
        ]
    )


def _app(
    routes: list[Route], answer: Callable[[errors.StorageError, Request], Response]
) -> Starlette:
    # Coroutines, because plain functions would run in a thread of their own.
    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, errors.NotModifiedError):
            return Response(status_code=error.status)
        return answer(cast("errors.StorageError", error), request)

    async def not_routed(request: Request, error: Exception) -> Response:
        return answer(errors.routing_error(cast("HTTPException", error)), request)

    async def went_away(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)

    return Starlette(
        routes=routes,
        exception_handlers={
            errors.StorageError: refused,
            HTTPException: not_routed,
            ClientDisconnect: went_away,
        },
    )


def _guarded(app: ASGIApp, check: Callable[[Mapping[str, str]], None]) -> ASGIApp:
    """Return an application that answers only requests whose headers pass a check."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check(Headers(scope=scope))
        except errors.StorageError as error:
            await errors.json_answer(error)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def _check_host(headers: Mapping[str, str]) -> None:
    check_framing(headers)
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in _LOOPBACK_HOSTS:
        raise errors.AccessDeniedError(f"This server answers 127.0.0.1, not {host!r}.")


def _check_not_a_web_page(headers: Mapping[str, str]) -> None:
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise errors.AccessDeniedError("The JSON API is not for web pages: use a signed URL.")
