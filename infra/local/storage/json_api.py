"""The JSON API's buckets, objects and notifications (`/storage/v1`, `/download`).

Reference: https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import base64
import itertools
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.local.storage import errors
from infra.local.storage.notifications import NotificationConfig
from infra.local.storage.requests import (
    Json,
    base_url,
    json_body,
    optional_number,
    path_segment,
    wanted_generation,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from infra.local.storage.objects import Buckets, StoredObject

_MOST_PER_PAGE = 1000
# Listing something else than was asked for would be worse than not listing.
_REFUSED_LISTINGS = (
    *("delimiter", "endOffset", "filter", "includeTrailingDelimiter", "matchGlob"),
    *("softDeleted", "startOffset"),
)


class JsonApi:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._config_ids = itertools.count(1)

    def routes(self) -> list[Route]:
        one = "/b/{bucket}/o/{object}"
        return [
            Route("/b", self.list_buckets, methods=["GET"]),
            Route("/b", self.create_bucket, methods=["POST"]),
            Route("/b/{bucket}/notificationConfigs", self.add_notification, methods=["POST"]),
            Route("/b/{bucket}/o", self.list_objects, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def list_buckets(self, request: Request) -> Response:
        query = request.query_params
        found = self._buckets.list_buckets(project_of(request), query.get("prefix", ""))
        items = [bucket.resource(base_url(request)) for bucket in found]
        return JSONResponse({"kind": "storage#buckets", "items": items})

    async def create_bucket(self, request: Request) -> Response:
        bucket = self._buckets.create_bucket(project_of(request), await json_body(request))
        return JSONResponse(bucket.resource(base_url(request)))

    async def add_notification(self, request: Request) -> Response:
        body, bucket = await json_body(request), self._buckets.bucket_of(request)
        config = NotificationConfig.parse(bucket.name, str(next(self._config_ids)), body)
        bucket.notifications[config.config_id] = config
        return JSONResponse(config.resource(base_url(request)))

    async def list_objects(self, request: Request) -> Response:
        query = request.query_params
        for name in _REFUSED_LISTINGS:
            if query.get(name, "false") not in {"", "false"}:
                raise errors.not_offered(f"The local cloud does not offer {name} in listings.")
        most, token = optional_number(query, "maxResults"), query.get("pageToken", "")
        try:
            after = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        except ValueError:
            raise errors.invalid_argument(f"Invalid pageToken: {token!r}.") from None
        found, last = self._buckets.list_page(
            path_segment(request, "bucket"),
            query.get("prefix", ""),
            after,
            min(most or _MOST_PER_PAGE, _MOST_PER_PAGE),
        )
        items = [stored.resource(base_url(request)) for stored in found]
        answer: Json = {"kind": "storage#objects", "items": items}
        if last is not None:
            answer["nextPageToken"] = base64.urlsafe_b64encode(last.encode()).decode()
        return JSONResponse(answer)

    async def get(self, request: Request) -> Response:
        stored = self._found(request)
        if request.query_params.get("alt") == "media":
            return stored.answer(request, {"ETag": stored.etag})
        return JSONResponse(stored.resource(base_url(request)))

    async def delete(self, request: Request) -> Response:
        self._buckets.delete(self._found(request))
        return Response(status_code=204)

    def _found(self, request: Request) -> StoredObject:
        return self._buckets.find(request, wanted_generation(request.query_params))


def project_of(request: Request) -> str:
    project = request.query_params.get("project", "")
    if not project:
        raise errors.invalid_argument("Required parameter: project", parameter="project")
    return project
