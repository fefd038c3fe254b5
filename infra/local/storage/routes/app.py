"""Composition of the storage server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from infra.local.storage.protocol.errors import StorageError
from infra.local.storage.protocol.resources import microseconds
from infra.local.storage.routes.answers import json_answer, routing_error, xml_answer
from infra.local.storage.routes.guard import Guarded, check_host, check_not_a_web_page
from infra.local.storage.routes.json_api import BucketApi, ObjectApi
from infra.local.storage.routes.sign_blob import SignBlobApi
from infra.local.storage.routes.upload_api import UploadApi
from infra.local.storage.routes.xml_api import XmlApi
from infra.local.storage.state.buckets import Buckets
from infra.local.storage.state.catalogue import Catalogue
from infra.local.storage.state.contents import Contents
from infra.local.storage.state.notifications import Backoff, Notifications, Publish
from infra.local.storage.state.objects import Objects
from infra.local.storage.state.uploads import LIFETIME, Uploads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from logging import Logger
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.storage.protocol.signatures import HmacKey


class _State(TypedDict):
    api: ASGIApp


def current_time() -> datetime:
    """Now, with a time zone."""
    return datetime.now(UTC)


def create_app(
    *,
    root: Path,
    publish: Publish,
    keys: Mapping[str, RSAPublicKey | HmacKey],
    signers: Mapping[str, RSAPrivateKey] | None = None,
    now: Callable[[], datetime] = current_time,
    backoff: Backoff | None = None,
    logger: Logger | None = None,
) -> Starlette:
    """The storage server as an ASGI application; it needs the lifespan protocol.

    Faults are injected around it: any ASGI middleware can delay, break or replace what it answers.

    Args:
        root: the folder for objects and catalogue; made if missing; for one server at a time.
        publish: publishes notifications.
        keys: whose signed URLs are obeyed: public keys by the service account's e-mail address, and
            HMAC keys by their access id.
        signers: the service accounts that `signBlob` signs for: private keys by e-mail address.
        now: the clock, with a time zone.
        backoff: how long to wait before a failed notification is repeated.
        logger: hears of notifications that could not be published.

    Raises:
        CatalogueInUseError: at startup, where another server uses `root`.
    """
    logger = logger or logging.getLogger(__name__)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[_State]:
        with Catalogue(root / "catalogue.sqlite") as catalogue:
            contents = Contents(root / "contents")
            notifications = Notifications(catalogue, publish, backoff or Backoff(), logger)
            catalogue.delete_sessions_before(microseconds(now() - LIFETIME))
            contents.keep_only(catalogue.content_ids())
            delivery = asyncio.create_task(notifications.run())
            delivery.add_done_callback(_report_failure(logger))
            try:
                api = _api(
                    catalogue=catalogue,
                    contents=contents,
                    notifications=notifications,
                    keys=keys,
                    signers=signers or {},
                    now=now,
                )
                yield {"api": api}
            finally:
                delivery.cancel()
                await asyncio.gather(delivery, return_exceptions=True)

    # Bound to loopback by whoever serves it; the Host check keeps rebound names out as well.
    return Starlette(routes=[Mount("/", app=Guarded(_serve, check_host))], lifespan=lifespan)


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Route by the undecoded path: a %2F in an object's name is no separator."""
    raw_path = cast("bytes", scope["raw_path"]).partition(b"?")[0].decode("latin-1")
    api = cast("_State", scope["state"])["api"]
    await api({**scope, "path": raw_path, "root_path": ""}, receive, send)


def _api(
    *,
    catalogue: Catalogue,
    contents: Contents,
    notifications: Notifications,
    keys: Mapping[str, RSAPublicKey | HmacKey],
    signers: Mapping[str, RSAPrivateKey],
    now: Callable[[], datetime],
) -> Starlette:
    buckets = Buckets(catalogue, now)
    objects = Objects(catalogue, contents, notifications, now)
    uploads = Uploads(catalogue, contents, objects, now)
    object_api = ObjectApi(objects, contents)
    xml_api = XmlApi(buckets, objects, contents, keys, now)
    return Starlette(
        routes=[
            Mount("/storage/v1", _json_app([*BucketApi(buckets).routes(), *object_api.routes()])),
            Mount("/download/storage/v1", _json_app(object_api.download_routes())),
            Mount("/upload/storage/v1", _json_app(UploadApi(objects, contents, uploads).routes())),
            Mount("/v1", _json_app(SignBlobApi(signers).routes())),
            Mount("/", _xml_app(xml_api)),
        ]
    )


def _json_app(routes: list[Route]) -> ASGIApp:
    app = _app(routes, lambda error, _request: json_answer(error))
    return Guarded(app, check_not_a_web_page)


def _xml_app(xml_api: XmlApi) -> ASGIApp:
    def answer(error: StorageError, request: Request) -> Response:
        response = xml_answer(error)
        if request.path_params.get("object"):
            response.headers.update(xml_api.cors_headers(request))
        return response

    return _app(xml_api.routes(), answer)


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


def _report_failure(logger: Logger) -> Callable[[asyncio.Task[None]], None]:
    def report(delivery: asyncio.Task[None]) -> None:
        if not delivery.cancelled() and (error := delivery.exception()) is not None:
            logger.critical("No notification is published any more.", exc_info=error)

    return report
