"""Messages as Pub/Sub pushes them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from shared.voices.messages import ConversionMessage, PushMessage
from shared.voices.voice import PublishError
from tests.support.voices import an_upload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.voices.voice import Input


def envelope(data: bytes, attributes: Mapping[str, str] | None = None) -> dict[str, Any]:
    message = {
        "data": base64.b64encode(data).decode(),
        "attributes": dict(attributes or {}),
        "messageId": "1",
        "publishTime": "2026-03-04T05:06:07Z",
    }
    return {"message": message, "subscription": "projects/p/subscriptions/s"}


def upload_notification(
    upload: Input, *, metadata: Mapping[str, str] | None = None, **attributes: str
) -> PushMessage:
    """Return Cloud Storage's notification of a finished upload."""
    resource = {
        "kind": "storage#object",
        "name": upload.object,
        "bucket": upload.bucket,
        "generation": str(upload.generation),
        "contentType": upload.content_type,
        "size": str(upload.bytes),
        **({"metadata": dict(metadata)} if metadata else {}),
    }
    told = {
        "eventType": "OBJECT_FINALIZE",
        "payloadFormat": "JSON_API_V1",
        "bucketId": upload.bucket,
        "objectId": upload.object,
        "objectGeneration": str(upload.generation),
        "eventTime": "2026-03-04T05:06:07.123456Z",
    }
    return PushMessage(json.dumps(resource).encode(), told | attributes)


def conversion_message(voice_id: str, **attributes: str) -> PushMessage:
    return PushMessage(ConversionMessage(voice_id, an_upload(voice_id)).encode(), attributes)


class RecordingPublisher:
    """Keeps published messages; fails a given number of times."""

    def __init__(self) -> None:
        self.published: list[tuple[bytes, Mapping[str, str]]] = []
        self.failures_left = 0

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise PublishError("the topic is out of reach")
        self.published.append((data, attributes))

    async def aclose(self) -> None:
        pass
