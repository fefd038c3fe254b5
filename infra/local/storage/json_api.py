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
from infra.local.storage.objects import Listing
from infra.local.storage.requests import (
    Json,
    Preconditions,
    base_url,
    json_body,
    optional_number,
    path_segment,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from infra.local.storage.objects import Buckets, StoredObject

_MOST_PER_PAGE = 1000
# Listing something else than was asked for would be worse than not listing.
_REFUSED_LISTINGS = ("filter", "includeTrailingDelimiter", "matchGlob", "softDeleted")


class JsonApi:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._config_ids = itertools.count(1)

    def routes(self) -> list[Route]:
        bucket, one = "/b/{bucket}", "/b/{bucket}/o/{object}"
        return [
            Route("/b", self.list_buckets, methods=["GET"]),
            Route("/b", self.create_bucket, methods=["POST"]),
            Route(bucket, self.get_bucket, methods=["GET"]),
            Route(bucket, self.delete_bucket, methods=["DELETE"]),
            Route(bucket + "/notificationConfigs", self.list_notifications, methods=["GET"]),
            Route(bucket + "/notificationConfigs", self.add_notification, methods=["POST"]),
            Route(bucket + "/o", self.list_objects, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.patch, methods=["PATCH"]),
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

    async def get_bucket(self, request: Request) -> Response:
        return JSONResponse(self._buckets.bucket_of(request).resource(base_url(request)))

    async def delete_bucket(self, request: Request) -> Response:
        self._buckets.delete_bucket(path_segment(request, "bucket"))
        return Response(status_code=204)

    async def list_notifications(self, request: Request) -> Response:
        configs = self._buckets.bucket_of(request).notifications.values()
        items = [config.resource(base_url(request)) for config in configs]
        return JSONResponse({"kind": "storage#notifications", "items": items})

    async def add_notification(self, request: Request) -> Response:
        body, bucket = (
            await json_body(request),
            self._buckets.bucket_of(request),
        )
        config = NotificationConfig.parse(bucket.name, str(next(self._config_ids)), body)
        bucket.notifications[config.config_id] = config
        return JSONResponse(config.resource(base_url(request)))

    async def list_objects(self, request: Request) -> Response:
        query = request.query_params
        for name in _REFUSED_LISTINGS:
            if query.get(name, "false") != "false":
                raise errors.not_offered(f"The local cloud does not offer {name} in listings.")
        most, token = optional_number(query, "maxResults"), query.get("pageToken", "")
        try:
            after = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        except ValueError:
            raise errors.invalid_argument(f"Invalid pageToken: {token!r}.") from None
        listing = Listing(
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter", ""),
            start=query.get("startOffset", ""),
            end=query.get("endOffset", ""),
            after=after,
            limit=min(most or _MOST_PER_PAGE, _MOST_PER_PAGE),
        )
        entries, last = self._buckets.list_page(path_segment(request, "bucket"), listing)
        found = [stored for stored in entries.values() if stored is not None]
        answer: Json = {
            "kind": "storage#objects",
            "items": [stored.resource(base_url(request)) for stored in found],
            "prefixes": [name for name, stored in entries.items() if stored is None],
        }
        if last is not None:
            answer["nextPageToken"] = base64.urlsafe_b64encode(last.encode()).decode()
        return JSONResponse(answer)

    async def get(self, request: Request) -> Response:
        stored = self._found(request)
        if request.query_params.get("alt") == "media":
            return stored.answer(request, {"ETag": stored.etag})
        return JSONResponse(stored.resource(base_url(request)))

    async def patch(self, request: Request) -> Response:
        body = await json_body(request)
        live = self._found(request, reading=False)
        changed = self._buckets.patch(live, body, base_url(request))
        return JSONResponse(changed.resource(base_url(request)))

    async def delete(self, request: Request) -> Response:
        self._buckets.delete(self._found(request, reading=False), base_url(request))
        return Response(status_code=204)

    def _found(self, request: Request, *, reading: bool = True) -> StoredObject:
        conditions = Preconditions.from_query(request.query_params)
        return self._buckets.find(request, conditions, reading=reading)


def project_of(request: Request) -> str:
    project = request.query_params.get("project", "")
    if not project:
        raise errors.invalid_argument("Required parameter: project", parameter="project")
    return project
