"""The JSON API's uploads: media, multipart and resumable (`/upload/storage/v1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.local.storage.protocol.bodies import Body, json_body, received_body
from infra.local.storage.protocol.digests import ExpectedDigests
from infra.local.storage.protocol.errors import InvalidArgumentError
from infra.local.storage.protocol.multipart import RelatedParts
from infra.local.storage.protocol.names import decoded
from infra.local.storage.protocol.preconditions import Preconditions, parsed_number
from infra.local.storage.protocol.resources import Json, object_fields
from infra.local.storage.routes.requests import base_url
from infra.local.storage.state.objects import Content, Draft
from infra.local.storage.state.uploads import ContentRange, Progress

if TYPE_CHECKING:
    from starlette.requests import Request

    from infra.local.storage.protocol.resources import StoredObject
    from infra.local.storage.state.contents import Contents
    from infra.local.storage.state.objects import Objects
    from infra.local.storage.state.uploads import Uploads


class UploadApi:
    """Endpoints that receive contents."""

    def __init__(self, objects: Objects, contents: Contents, uploads: Uploads) -> None:
        self._objects = objects
        self._contents = contents
        self._uploads = uploads

    def routes(self) -> list[Route]:
        """The endpoints, below `/upload/storage/v1`."""
        return [
            Route("/b/{bucket}/o", self.start, methods=["POST"]),
            Route("/b/{bucket}/o", self.resume, methods=["PUT"]),
            Route("/b/{bucket}/o", self.cancel, methods=["DELETE"]),
        ]

    async def start(self, request: Request) -> Response:
        """Receive a whole object, or open a session for one."""
        upload_type = request.query_params.get("uploadType")
        if upload_type == "resumable":
            return await self._open_session(request)
        async with received_body(request) as body:
            if upload_type == "media":
                stored = await self._media(request, body)
            elif upload_type == "multipart":
                stored = await self._multipart(request, body)
            else:
                raise InvalidArgumentError(
                    f"uploadType must be media, multipart or resumable, not {upload_type!r}."
                )
        return JSONResponse(stored.resource(base_url(request)))

    async def resume(self, request: Request) -> Response:
        """Receive the next bytes of a session, or say how far it is."""
        async with received_body(request) as body:
            progress = await self._received(request, body)
        return _progress_response(request, progress)

    async def cancel(self, request: Request) -> Response:
        """End a session."""
        await self._uploads.cancel(_bucket(request), _session_id(request))
        return Response(status_code=499)

    async def _media(self, request: Request, body: Body) -> StoredObject:
        resource: Json = {}
        if "content-type" in request.headers:
            resource["contentType"] = request.headers["content-type"]
        draft = _draft(request, resource)
        self._objects.check(draft)
        expected = _header_digests(request)
        async with self._contents.writing() as writer:
            async for piece in body:
                await writer.write(piece)
            digests = await writer.finish()
            expected.check(digests)
            content = Content.uploaded(writer.content_id, digests)
            return self._objects.commit(draft, content, base_url(request))

    async def _multipart(self, request: Request, body: Body) -> StoredObject:
        parts = RelatedParts(request.headers.get("content-type", ""))
        expected = _header_digests(request)
        async with self._contents.writing() as writer:
            async for piece in body:
                for data in parts.feed(piece):
                    await writer.write(data)
            digests = await writer.finish()
            resource = parts.resource()
            expected.merged(_resource_digests(resource)).check(digests)
            content = Content.uploaded(writer.content_id, digests)
            return self._objects.commit(_draft(request, resource), content, base_url(request))

    async def _open_session(self, request: Request) -> Response:
        resource = await json_body(request)
        content_type = request.headers.get("x-upload-content-type")
        if content_type:
            resource.setdefault("contentType", content_type)
        announced = "x-upload-content-length"
        session_id = self._uploads.open(
            _draft(request, resource),
            _resource_digests(resource),
            parsed_number(request.headers.get(announced), announced),
        )
        location = (
            f"{base_url(request)}{request.scope['path']}"
            f"?uploadType=resumable&upload_id={session_id}"
        )
        return Response(headers={"Location": location, "X-GUploader-UploadID": session_id})

    async def _received(self, request: Request, body: Body) -> Progress:
        bucket, session_id = _bucket(request), _session_id(request)
        content_range = _content_range(request, body)
        if content_range.positions is None and content_range.total is None:
            return await self._uploads.progress(bucket, session_id)
        return await self._uploads.receive(
            bucket,
            session_id,
            content_range=content_range,
            body=body,
            expected=_header_digests(request),
            base_url=base_url(request),
        )


def _draft(request: Request, resource: Json) -> Draft:
    name = request.query_params.get("name") or resource.get("name")
    return Draft(
        bucket=_bucket(request),
        name=name if isinstance(name, str) else "",
        fields=object_fields(resource),
        conditions=Preconditions.from_query(request.query_params),
    )


def _bucket(request: Request) -> str:
    return decoded(request.path_params["bucket"])


def _session_id(request: Request) -> str:
    session_id = request.query_params.get("upload_id")
    if not session_id:
        raise InvalidArgumentError("Required parameter: upload_id", parameter="upload_id")
    return session_id


def _content_range(request: Request, body: Body) -> ContentRange:
    header = request.headers.get("content-range")
    if header is not None:
        return ContentRange.parse(header)
    if body.announced is None:
        raise InvalidArgumentError("Send a Content-Range or a Content-Length.")
    return ContentRange(range(body.announced), body.announced)


def _header_digests(request: Request) -> ExpectedDigests:
    return ExpectedDigests.from_hash_headers(
        request.headers.getlist("x-goog-hash"), md5=request.headers.get("content-md5")
    )


def _resource_digests(resource: Json) -> ExpectedDigests:
    crc32c, md5 = resource.get("crc32c"), resource.get("md5Hash")
    return ExpectedDigests(
        crc32c=crc32c if isinstance(crc32c, str) else None,
        md5=md5 if isinstance(md5, str) else None,
    )


def _progress_response(request: Request, progress: Progress) -> Response:
    if progress.resource is not None:
        return JSONResponse(progress.resource)
    headers = {"X-GUploader-UploadID": _session_id(request)}
    if progress.persisted:
        headers["Range"] = f"bytes=0-{progress.persisted - 1}"
    return Response(status_code=308, headers=headers)
