"""The storage server as an ASGI application, and the guard in front of it.

The JSON API trusts every caller, so a request must not come from a page that the developer happens
to look at. A page whose name was rebound to 127.0.0.1 sends its own name as Host; a page of another
origin sends Origin or Sec-Fetch-Site. The unmodified client libraries send neither.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from contextlib import asynccontextmanager
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
    from collections.abc import AsyncIterator, Callable, Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.storage.signed_urls import HmacKey

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def create_app(
    *,
    root: Path,
    publish: Publish,
    keys: Mapping[str, RSAPublicKey | HmacKey],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    patience: PublishPatience | None = None,
) -> Starlette:
    """Return the storage server, which needs the lifespan protocol and is empty at each start."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, ASGIApp]]:
        log = logging.getLogger(__name__)
        notifications = Notifications(publish, patience or PublishPatience(), log)
        buckets = Buckets(notifications, now)
        await asyncio.to_thread(root.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix="contents-", dir=root, ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            try:
                xml_api = XmlApi(buckets, folder, keys, now)
                yield {"api": routed(buckets, UploadApi(buckets, folder), xml_api)}
            finally:
                await notifications.aclose()

    return Starlette(routes=[Mount("/", app=guarded(serve, check_host))], lifespan=lifespan)


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Route by the undecoded path: a %2F in an object's name is no separator."""
    raw_path = cast("bytes", scope["raw_path"]).partition(b"?")[0].decode("latin-1")
    api: ASGIApp = scope["state"]["api"]
    await api({**scope, "path": raw_path, "root_path": ""}, receive, send)


def routed(buckets: Buckets, uploads: UploadApi, xml_api: XmlApi) -> ASGIApp:
    def xml_error(error: errors.StorageError, request: Request) -> Response:
        response = errors.xml_answer(error)
        if request.path_params.get("object"):
            response.headers.update(xml_api.cors_headers(request))
        return response

    def json_app(routes: list[Route]) -> ASGIApp:
        app = answering_errors(routes, lambda error, _request: errors.json_answer(error))
        return guarded(app, check_no_web_page)

    json_routes = JsonApi(buckets).routes()
    return Starlette(
        routes=[
            Mount("/storage/v1", json_app(json_routes)),
            Mount("/download/storage/v1", json_app(json_routes)),
            Mount("/upload/storage/v1", json_app(uploads.routes())),
            Mount("/", answering_errors(xml_api.routes(), xml_error)),
        ]
    )


def answering_errors(
    routes: list[Route], answer: Callable[[errors.StorageError, Request], Response]
) -> Starlette:
    # Coroutines, because plain functions would run in a thread of their own.
    async def refused(request: Request, error: Exception) -> Response:
        refusal = cast("errors.StorageError", error)
        if refusal.code == "NotModified":
            return Response(status_code=refusal.status)
        return answer(refusal, request)

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


def guarded(app: ASGIApp, check: Callable[[Mapping[str, str]], None]) -> ASGIApp:
    """Return an application that answers only requests whose headers pass a check."""

    async def serve_checked(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check(Headers(scope=scope))
        except errors.StorageError as error:
            await errors.json_answer(error)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return serve_checked


def check_host(headers: Mapping[str, str]) -> None:
    check_framing(headers)
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in LOOPBACK_HOSTS:
        raise errors.access_denied(f"This server answers 127.0.0.1, not {host!r}.")


def check_no_web_page(headers: Mapping[str, str]) -> None:
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise errors.access_denied("The JSON API is not for web pages: use a signed URL.")
