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
from typing import TYPE_CHECKING, TypedDict, cast

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from infra.local.storage.errors import (
    AccessDeniedError,
    StorageError,
    json_answer,
    routing_error,
    xml_answer,
)
from infra.local.storage.json_api import BucketApi, ObjectApi
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


class _State(TypedDict):
    api: ASGIApp


def current_time() -> datetime:
    """Return now, with a time zone."""
    return datetime.now(UTC)


def create_app(
    *,
    root: Path,
    publish: Publish,
    keys: Mapping[str, RSAPublicKey | HmacKey],
    now: Callable[[], datetime] = current_time,
    patience: PublishPatience | None = None,
) -> Starlette:
    """Return the storage server, which needs the lifespan protocol and is empty at each start.

    Args:
        root: the folder for a temporary folder with the contents; made if missing.
        publish: publishes notifications.
        keys: verify signed URLs: public keys by the service account's e-mail address, and HMAC keys
            by their access id.
        now: the clock, with a time zone.
        patience: how long to wait for and between attempts to publish.
    """

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[_State]:
        logger = logging.getLogger(__name__)
        notifications = Notifications(publish, patience or PublishPatience(), logger)
        buckets = Buckets(notifications, now)
        with _folder_in(root) as folder:
            try:
                xml_api = XmlApi(buckets, folder, keys, now)
                yield {"api": _routed(buckets, UploadApi(buckets, folder), xml_api)}
            finally:
                await notifications.aclose()

    return Starlette(routes=[Mount("/", app=_Guarded(_serve, _check_host))], lifespan=lifespan)


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
    api = cast("_State", scope["state"])["api"]
    await api({**scope, "path": raw_path, "root_path": ""}, receive, send)


def _routed(buckets: Buckets, uploads: UploadApi, xml_api: XmlApi) -> ASGIApp:
    objects = ObjectApi(buckets)

    def xml_error(error: StorageError, request: Request) -> Response:
        response = xml_answer(error)
        if request.path_params.get("object"):
            response.headers.update(xml_api.cors_headers(request))
        return response

    def json_app(routes: list[Route]) -> ASGIApp:
        app = _app(routes, lambda error, _request: json_answer(error))
        return _Guarded(app, _check_not_a_web_page)

    return Starlette(
        routes=[
            Mount("/storage/v1", json_app([*BucketApi(buckets).routes(), *objects.routes()])),
            Mount("/download/storage/v1", json_app(objects.download_routes())),
            Mount("/upload/storage/v1", json_app(uploads.routes())),
            Mount("/", _app(xml_api.routes(), xml_error)),
        ]
    )


def _app(routes: list[Route], answer: Callable[[StorageError, Request], Response]) -> Starlette:
    # Coroutines, because plain functions would run in a thread of their own.
    async def refused(request: Request, error: Exception) -> Response:
        return answer(cast("StorageError", error), request)

    async def not_routed(request: Request, error: Exception) -> Response:
        return answer(routing_error(cast("HTTPException", error)), request)

    async def went_away(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)

    return Starlette(
        routes=routes,
        exception_handlers={
            StorageError: refused,
            HTTPException: not_routed,
            ClientDisconnect: went_away,
        },
    )


class _Guarded:
    """An application that answers only requests whose headers pass a check."""

    def __init__(self, app: ASGIApp, check: Callable[[Mapping[str, str]], None]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(Headers(scope=scope))
        except StorageError as error:
            await json_answer(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _check_host(headers: Mapping[str, str]) -> None:
    check_framing(headers)
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in _LOOPBACK_HOSTS:
        raise AccessDeniedError(f"This server answers 127.0.0.1 and localhost, not {host!r}.")


def _check_not_a_web_page(headers: Mapping[str, str]) -> None:
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise AccessDeniedError(
            "The JSON API of the local cloud is not for web pages: use a signed URL."
        )
