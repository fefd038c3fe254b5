"""Buckets, objects and notification configurations, and their JSON API resources.

Resource shapes: https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from infra.local.storage.protocol.errors import InvalidArgumentError, NotOfferedError

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

WRITABLE_OBJECT_FIELDS = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
    "storageClass",
)
_REFUSED_OBJECT_FIELDS = ("eventBasedHold", "kmsKeyName", "retention", "temporaryHold")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Microseconds since the epoch: the unit of the catalogue and of generations."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_of(epoch_microseconds: int) -> datetime:
    """The inverse of `microseconds`."""
    return EPOCH + timedelta(microseconds=epoch_microseconds)


def rfc3339(epoch_microseconds: int, timespec: str = "milliseconds") -> str:
    """A time as the JSON API writes it."""
    text = moment_of(epoch_microseconds).isoformat(timespec=timespec)
    return text.removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket; `fields` holds what its owner set (cors, labels, ...)."""

    name: str
    project: str
    metageneration: int
    created: int
    updated: int
    fields: Json

    def resource(self, base_url: str) -> Json:
        """The `storage#bucket` resource."""
        return {
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
            "location": "LOCAL",
            "locationType": "region",
            "storageClass": "STANDARD",
            **self.fields,
            "kind": "storage#bucket",
            "id": self.name,
            "name": self.name,
            "selfLink": f"{base_url}/storage/v1/b/{self.name}",
            "metageneration": str(self.metageneration),
            "etag": etag_of(self.created, self.metageneration),
            "timeCreated": rfc3339(self.created),
            "updated": rfc3339(self.updated),
        }


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A live object; times in microseconds since the epoch, size in bytes."""

    bucket: str
    name: str
    generation: int
    metageneration: int
    content_id: str
    size: int
    crc32c: str
    md5: str
    created: int
    updated: int
    fields: Json

    @property
    def etag(self) -> str:
        """The JSON API's entity tag."""
        return etag_of(self.generation, self.metageneration)

    @property
    def xml_etag(self) -> str:
        """The XML API's entity tag: the MD5 in hexadecimal."""
        return f'"{base64.b64decode(self.md5).hex()}"'

    @property
    def content_type(self) -> str:
        """The media type, as Cloud Storage answers where none was given."""
        return str(self.fields.get("contentType") or "application/octet-stream")

    def resource(self, base_url: str) -> Json:
        """The `storage#object` resource, whose links begin with `base_url`."""
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
            "metageneration": str(self.metageneration),
            "size": str(self.size),
            "crc32c": self.crc32c,
            "md5Hash": self.md5,
            "etag": self.etag,
            "timeCreated": rfc3339(self.created),
            "timeFinalized": rfc3339(self.created),
            "timeStorageClassUpdated": rfc3339(self.created),
            "updated": rfc3339(self.updated),
        }


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """Which events of a bucket go to which topic (`projects/P/topics/T`), and how."""

    bucket: str
    config_id: int
    topic: str
    event_types: tuple[str, ...]
    object_name_prefix: str
    payload_format: str
    custom_attributes: Mapping[str, str]

    def wants(self, event_type: str, object_name: str) -> bool:
        """Whether an event is to be told."""
        return (not self.event_types or event_type in self.event_types) and object_name.startswith(
            self.object_name_prefix
        )

    def resource(self, base_url: str) -> Json:
        """The `storage#notification` resource."""
        path = f"/storage/v1/b/{self.bucket}/notificationConfigs/{self.config_id}"
        resource: Json = {
            "kind": "storage#notification",
            "id": str(self.config_id),
            "selfLink": f"{base_url}{path}",
            "topic": f"//pubsub.googleapis.com/{self.topic}",
            "payload_format": self.payload_format,
            "etag": str(self.config_id),
        }
        if self.event_types:
            resource["event_types"] = list(self.event_types)
        if self.object_name_prefix:
            resource["object_name_prefix"] = self.object_name_prefix
        if self.custom_attributes:
            resource["custom_attributes"] = dict(self.custom_attributes)
        return resource


def etag_of(*numbers: int) -> str:
    """An opaque tag that changes with any of the numbers."""
    return base64.b64encode(".".join(map(str, numbers)).encode()).decode()


def object_fields(body: Json) -> Json:
    """The writable fields of an object resource that a client sent, nulls left out.

    Raises:
        InvalidArgumentError: a field has the wrong shape.
        NotOfferedError: a field asks for a hold, retention or encryption key.
    """
    for name in _REFUSED_OBJECT_FIELDS:
        if body.get(name):
            raise NotOfferedError(f"The local cloud does not offer {name} of objects.")
    fields = {name: body[name] for name in WRITABLE_OBJECT_FIELDS if body.get(name) is not None}
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidArgumentError("metadata must be an object of strings.")
    texts = [*metadata.values(), *(fields[name] for name in fields if name != "metadata")]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError("Object fields and metadata values must be strings.")
    if any("\r" in text or "\n" in text for text in [*texts, *metadata]):
        raise InvalidArgumentError("Object fields and metadata must not contain line breaks.")
    return fields
