"""The JSON API's buckets, objects and notification configurations (`/storage/v1`, `/download`).

Reference: https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.local.storage.protocol.bodies import json_body
from infra.local.storage.protocol.errors import InvalidArgumentError, NotOfferedError
from infra.local.storage.protocol.names import checked_object_name, decoded
from infra.local.storage.protocol.preconditions import Preconditions, parsed_number
from infra.local.storage.routes.downloads import content_response
from infra.local.storage.routes.requests import base_url
from infra.local.storage.state.objects import Listing

if TYPE_CHECKING:
    from starlette.requests import Request

    from infra.local.storage.protocol.resources import Json, StoredObject
    from infra.local.storage.state.buckets import Buckets
    from infra.local.storage.state.contents import Contents
    from infra.local.storage.state.objects import Objects

_MOST_PER_PAGE = 1000
# Listing something else than was asked for would be worse than not listing.
_REFUSED_LISTINGS = ("filter", "includeTrailingDelimiter", "matchGlob", "softDeleted")


class BucketApi:
    """Endpoints for buckets and their notification configurations."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def routes(self) -> list[Route]:
        """The endpoints, below `/storage/v1`."""
        config = "/b/{bucket}/notificationConfigs/{config}"
        return [
            Route("/b", self.list_page, methods=["GET"]),
            Route("/b", self.create, methods=["POST"]),
            Route("/b/{bucket}", self.get, methods=["GET"]),
            Route("/b/{bucket}", self.delete, methods=["DELETE"]),
            Route("/b/{bucket}/notificationConfigs", self.list_notifications, methods=["GET"]),
            Route("/b/{bucket}/notificationConfigs", self.add_notification, methods=["POST"]),
            Route(config, self.get_notification, methods=["GET"]),
            Route(config, self.delete_notification, methods=["DELETE"]),
        ]

    async def list_page(self, request: Request) -> Response:
        """List a project's buckets."""
        query = request.query_params
        buckets, more = self._buckets.list_page(
            _project(request),
            query.get("prefix", ""),
            _decoded_token(query.get("pageToken")),
            _page_size(request),
        )
        answer: Json = {
            "kind": "storage#buckets",
            "items": [bucket.resource(base_url(request)) for bucket in buckets],
        }
        if more:
            answer["nextPageToken"] = _token(buckets[-1].name)
        return JSONResponse(answer)

    async def create(self, request: Request) -> Response:
        """Make a bucket."""
        bucket = self._buckets.create(_project(request), await json_body(request))
        return JSONResponse(bucket.resource(base_url(request)))

    async def get(self, request: Request) -> Response:
        """Describe a bucket."""
        bucket = self._buckets.get(_segment(request, "bucket"))
        return JSONResponse(bucket.resource(base_url(request)))

    async def delete(self, request: Request) -> Response:
        """Remove an empty bucket."""
        conditions = Preconditions.from_query(request.query_params)
        self._buckets.delete(_segment(request, "bucket"), conditions)
        return Response(status_code=204)

    async def list_notifications(self, request: Request) -> Response:
        """List a bucket's notification configurations."""
        configs = self._buckets.list_notifications(_segment(request, "bucket"))
        items = [config.resource(base_url(request)) for config in configs]
        return JSONResponse({"kind": "storage#notifications", "items": items})

    async def add_notification(self, request: Request) -> Response:
        """Attach a notification configuration."""
        config = self._buckets.add_notification(
            _segment(request, "bucket"), await json_body(request)
        )
        return JSONResponse(config.resource(base_url(request)))

    async def get_notification(self, request: Request) -> Response:
        """Describe a notification configuration."""
        config = self._buckets.get_notification(
            _segment(request, "bucket"), _segment(request, "config")
        )
        return JSONResponse(config.resource(base_url(request)))

    async def delete_notification(self, request: Request) -> Response:
        """Detach a notification configuration."""
        self._buckets.delete_notification(_segment(request, "bucket"), _segment(request, "config"))
        return Response(status_code=204)


class ObjectApi:
    """Endpoints for objects, except uploads."""

    def __init__(self, objects: Objects, contents: Contents) -> None:
        self._objects = objects
        self._contents = contents

    def routes(self) -> list[Route]:
        """The endpoints, below `/storage/v1`."""
        one = "/b/{bucket}/o/{object}"
        return [
            Route("/b/{bucket}/o", self.list_page, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    def download_routes(self) -> list[Route]:
        """The endpoint for contents, below `/download/storage/v1`."""
        return [Route("/b/{bucket}/o/{object}", self.download, methods=["GET"])]

    async def list_page(self, request: Request) -> Response:
        """List a bucket's objects."""
        query = request.query_params
        for name in _REFUSED_LISTINGS:
            if query.get(name, "false") != "false":
                raise NotOfferedError(f"The local cloud does not offer {name} in listings.")
        listing = Listing(
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter", ""),
            start=max(query.get("startOffset", ""), _decoded_token(query.get("pageToken"))),
            end=query.get("endOffset", ""),
            limit=_page_size(request),
        )
        page = self._objects.list_page(_segment(request, "bucket"), listing)
        answer: Json = {
            "kind": "storage#objects",
            "items": [stored.resource(base_url(request)) for stored in page.items],
        }
        if page.prefixes:
            answer["prefixes"] = page.prefixes
        if page.next_start is not None:
            answer["nextPageToken"] = _token(page.next_start)
        return JSONResponse(answer)

    async def get(self, request: Request) -> Response:
        """Describe an object, or with `alt=media` answer its content."""
        if request.query_params.get("alt") == "media":
            return await self.download(request)
        return JSONResponse(self._found(request).resource(base_url(request)))

    async def download(self, request: Request) -> Response:
        """Answer an object's content."""
        stored = self._found(request)
        return content_response(request, self._contents, stored, {"ETag": stored.etag})

    async def delete(self, request: Request) -> Response:
        """Remove an object."""
        self._objects.delete(
            _segment(request, "bucket"),
            _segment(request, "object"),
            _generation(request, "generation"),
            Preconditions.from_query(request.query_params),
            base_url(request),
        )
        return Response(status_code=204)

    def _found(self, request: Request) -> StoredObject:
        return self._objects.get(
            _segment(request, "bucket"),
            _segment(request, "object"),
            _generation(request, "generation"),
            Preconditions.from_query(request.query_params),
        )


def _segment(request: Request, name: str) -> str:
    segment = decoded(request.path_params[name])
    return segment if name in {"bucket", "config"} else checked_object_name(segment)


def _generation(request: Request, name: str) -> int | None:
    return parsed_number(request.query_params.get(name), name)


def _project(request: Request) -> str:
    project = request.query_params.get("project", "")
    if not project:
        raise InvalidArgumentError("Required parameter: project", parameter="project")
    return project


def _page_size(request: Request) -> int:
    size = parsed_number(request.query_params.get("maxResults"), "maxResults")
    return min(size or _MOST_PER_PAGE, _MOST_PER_PAGE)


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decoded_token(token: str | None) -> str:
    try:
        return base64.b64decode(token or "", altchars=b"-_", validate=True).decode()
    except ValueError:
        raise InvalidArgumentError(f"Invalid pageToken: {token!r}.") from None
