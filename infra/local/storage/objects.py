"""Buckets and their objects, in the memory of one process; every change is one step.

Resources: https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response

from infra.local.storage import errors
from infra.local.storage.contents import ContentResponse, StoredContent
from infra.local.storage.notifications import FINALIZE
from infra.local.storage.requests import (
    Json,
    check_generation,
    checked_object_name,
    optional_number,
    path_segment,
    requested_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from infra.local.storage.notifications import NotificationConfig, Notifications

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# These change how objects are stored and read; accepting them without effect would mislead.
_REFUSED_BUCKET_FIELDS = ("billing", "encryption", "retentionPolicy", "versioning")
_REFUSED_OBJECT_FIELDS = ("eventBasedHold", "kmsKeyName", "retention", "temporaryHold")
FIELD_HEADERS = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentEncoding": "Content-Encoding",
    "contentLanguage": "Content-Language",
}
_WRITABLE_OBJECT_FIELDS = (*FIELD_HEADERS, "contentType", "customTime", "metadata", "storageClass")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def rfc3339(moment: datetime, timespec: str = "milliseconds") -> str:
    return moment.isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A live object; `fields` holds what its owner set."""

    bucket: str
    name: str
    generation: int
    content: StoredContent
    created: datetime
    fields: Json

    @property
    def etag(self) -> str:
        return etag_of(self.generation)

    @property
    def xml_etag(self) -> str:
        """The XML API's entity tag: the MD5 in hexadecimal."""
        return f'"{base64.b64decode(self.content.md5).hex()}"'

    def resource(self, base_url: str) -> Json:
        path = f"/storage/v1/b/{self.bucket}/o/{quote(self.name, safe='')}"
        return {
            "storageClass": "STANDARD",
            **self.fields,
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "selfLink": f"{base_url}{path}",
            "mediaLink": f"{base_url}/download{path}?generation={self.generation}&alt=media",
            "name": self.name,
            "bucket": self.bucket,
            "generation": str(self.generation),
            "metageneration": "1",
            "size": str(self.content.size),
            "crc32c": self.content.crc32c,
            "md5Hash": self.content.md5,
            "etag": self.etag,
            "timeCreated": rfc3339(self.created),
            "updated": rfc3339(self.created),
        }

    def version_headers(self) -> dict[str, str]:
        return {
            "x-goog-generation": str(self.generation),
            "x-goog-metageneration": "1",
            "x-goog-hash": f"crc32c={self.content.crc32c},md5={self.content.md5}",
            "x-goog-storage-class": str(self.fields.get("storageClass", "STANDARD")),
            "x-goog-stored-content-encoding": str(self.fields.get("contentEncoding", "identity")),
            "x-goog-stored-content-length": str(self.content.size),
        }

    def headers(self) -> dict[str, str]:
        headers = {
            "Accept-Ranges": "bytes",
            "Cache-Control": "private, max-age=0",
            "Content-Type": str(self.fields.get("contentType") or "application/octet-stream"),
            "ETag": self.xml_etag,
            "Last-Modified": self.created.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        } | self.version_headers()
        for name, header in FIELD_HEADERS.items():
            if name in self.fields:
                headers[header] = latin1(self.fields[name])
        # A key that cannot be a header name is in the resource only.
        for key, value in self.fields.get("metadata", {}).items():
            if _HEADER_NAME.fullmatch(key):
                headers[f"x-goog-meta-{key}"] = latin1(value)
        return headers

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        """Answer GET with the content, or a range of it, and HEAD without it.

        `headers` override the object's own. A content that was stored with a Content-Encoding is
        sent with it, not decoded.
        """
        size, status = self.content.size, 200
        headers = self.headers() | headers
        positions = requested_range(request.headers.get("range"), size)
        if positions is not None:
            status = 206
            headers["Content-Range"] = f"bytes {positions.start}-{positions.stop - 1}/{size}"
        positions = range(size) if positions is None else positions
        headers["Content-Length"] = str(len(positions))
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        # Opened before the first byte is sent: the generation that was asked for stays readable.
        return ContentResponse(self.content.path.open("rb"), positions, status, headers)


@dataclass(slots=True)
class StoredBucket:
    """A bucket; `fields` holds what its owner set (cors, labels, ...)."""

    name: str
    project: str
    created: datetime
    fields: Json
    objects: dict[str, StoredObject] = field(default_factory=dict)
    notifications: dict[str, NotificationConfig] = field(default_factory=dict)

    def resource(self, base_url: str) -> Json:
        return {
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
            "location": "LOCAL",
            "locationType": "region",
            "storageClass": "STANDARD",
            **self.fields,
            "kind": "storage#bucket",
            "id": self.name,
            "name": self.name,
            "selfLink": f"{base_url}/storage/v1/b/{self.name}",
            "metageneration": "1",
            "etag": etag_of(microseconds(self.created)),
            "timeCreated": rfc3339(self.created),
            "updated": rfc3339(self.created),
        }


@dataclass(frozen=True, slots=True)
class ObjectDraft:
    """An object to be written, where the generation is the wanted one if there is one."""

    bucket: str
    name: str
    fields: Json
    wanted_generation: int | None


class Buckets:
    def __init__(self, notifications: Notifications, now: Callable[[], datetime]) -> None:
        self._buckets: dict[str, StoredBucket] = {}
        self._notifications = notifications
        self._now = now
        self._last_generation = 0

    def bucket(self, name: str) -> StoredBucket:
        if name not in self._buckets:
            raise errors.bucket_not_found(f"No such bucket: {name}")
        return self._buckets[name]

    def bucket_of(self, request: Request) -> StoredBucket:
        return self.bucket(path_segment(request, "bucket"))

    def list_buckets(self, project: str, prefix: str) -> list[StoredBucket]:
        found = (self._buckets[name] for name in sorted(self._buckets) if name.startswith(prefix))
        return [bucket for bucket in found if bucket.project == project]

    def create_bucket(self, project: str, body: Json) -> StoredBucket:
        name = str(body.get("name"))
        if name in self._buckets:
            raise errors.bucket_conflict(f"The bucket {name} exists already.")
        for refused in _REFUSED_BUCKET_FIELDS:
            if any((body.get(refused) or {}).values()):
                raise errors.not_offered(f"The local cloud does not offer {refused} of buckets.")
        fields = {name: value for name, value in body.items() if value is not None}
        bucket = StoredBucket(name, project, self._now(), fields)
        self._buckets[name] = bucket
        return bucket

    def find(self, request: Request, wanted_generation: int | None) -> StoredObject:
        """Return the live object that a request names, of the generation that it may name."""
        bucket = path_segment(request, "bucket")
        name = checked_object_name(path_segment(request, "object"))
        generation = optional_number(request.query_params, "generation")
        stored = self.bucket(bucket).objects.get(name)
        if stored is None or generation not in {None, stored.generation}:
            wanted = f"{bucket}/{name}" + (f"#{generation}" if generation else "")
            raise errors.object_not_found(f"No such object: {wanted}")
        check_generation(wanted_generation, stored.generation)
        return stored

    def check(self, draft: ObjectDraft) -> None:
        """Refuse early what `write` would refuse."""
        checked_object_name(draft.name)
        live = self.bucket(draft.bucket).objects.get(draft.name)
        check_generation(draft.wanted_generation, live.generation if live else 0)

    def write(self, draft: ObjectDraft, content: StoredContent, base_url: str) -> StoredObject:
        """Make a complete content the live object; if refused, it still belongs to the caller."""
        self.check(draft)
        now = self._now()
        self._last_generation = max(self._last_generation + 1, microseconds(now))
        stored = StoredObject(
            bucket=draft.bucket,
            name=draft.name,
            generation=self._last_generation,
            content=content,
            created=now,
            fields=draft.fields,
        )
        objects = self.bucket(draft.bucket).objects
        replaced = objects.get(draft.name)
        objects[draft.name] = stored
        attributes = {
            "eventType": FINALIZE,
            "bucketId": stored.bucket,
            "objectId": stored.name,
            "objectGeneration": str(stored.generation),
            "eventTime": rfc3339(now, "microseconds"),
        }
        if replaced is not None:
            replaced.content.delete()
            attributes["overwroteGeneration"] = str(replaced.generation)
        configs = self.bucket(stored.bucket).notifications.values()
        self._notifications.publish(configs, attributes, stored.resource(base_url))
        return stored

    def delete(self, live: StoredObject) -> None:
        del self.bucket(live.bucket).objects[live.name]
        live.content.delete()

    def list_page(
        self, bucket: str, prefix: str, after: str, most: int
    ) -> tuple[list[StoredObject], str | None]:
        """Return objects in the order of their names' UTF-8.

        The second value is the name after which the next page begins, if there is one.
        """
        objects = self.bucket(bucket).objects
        names = sorted(name for name in objects if name.startswith(prefix) and name > after)
        found = [objects[name] for name in names[:most]]
        return found, found[-1].name if len(names) > most else None


def object_fields(body: Json) -> Json:
    """Return the writable fields of an object resource that a client sent, nulls left out."""
    for name in _REFUSED_OBJECT_FIELDS:
        if body.get(name):
            raise errors.not_offered(f"The local cloud does not offer {name} of objects.")
    fields = {name: body[name] for name in _WRITABLE_OBJECT_FIELDS if body.get(name) is not None}
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.invalid_argument("metadata must be an object of strings.")
    metadata = {key: value for key, value in metadata.items() if value is not None}
    fields |= {"metadata": metadata} if "metadata" in fields else {}
    texts = [*metadata.values(), *(fields[name] for name in fields if name != "metadata")]
    if not all(isinstance(text, str) for text in texts):
        raise errors.invalid_argument("Object fields and metadata values must be strings.")
    if any("\r" in text or "\n" in text for text in [*texts, *metadata]):
        raise errors.invalid_argument("Object fields must not contain line breaks.")
    return fields


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def etag_of(number: int) -> str:
    return base64.b64encode(str(number).encode()).decode()


def latin1(text: str) -> str:
    """Return UTF-8 as HTTP libraries write header values: as Latin-1."""
    return text.encode().decode("latin-1")
