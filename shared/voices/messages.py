"""The messages between the deployables, and their parsers."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.voices.voice import Input, InvalidVoiceIdError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Mapping

FINALIZE: Final = "OBJECT_FINALIZE"  # the event type of a finished upload


class MalformedMessageError(ValueError):
    """A message has the wrong form; delivering it again can't help."""


@dataclass(frozen=True, slots=True)
class PushMessage:
    """One message as Pub/Sub pushes it; `published_at` is in RFC 3339."""

    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    message_id: str = ""
    subscription: str = ""
    published_at: str = ""


@dataclass(frozen=True, slots=True)
class UploadEvent:
    """A notification of Cloud Storage about an object; `happened_at` is in RFC 3339."""

    event_type: str
    name: str
    upload: Input
    happened_at: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversionMessage:
    """A request to convert a voice from exactly this upload."""

    voice_id: str
    upload: Input
    client: str | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def parse_push(body: bytes) -> PushMessage:
    envelope = _json_object(body, "the request's body")
    message = envelope.get("message")
    if not isinstance(message, dict):
        raise MalformedMessageError("the request's body has no object `message`")
    attributes = message.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise MalformedMessageError("`message.attributes` is not an object")
    try:
        data = base64.b64decode(message.get("data") or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise MalformedMessageError("`message.data` is not base64") from error
    return PushMessage(
        data=data,
        attributes={str(key): str(value) for key, value in attributes.items()},
        message_id=str(message.get("messageId", "")),
        subscription=str(envelope.get("subscription", "")),
        published_at=str(message.get("publishTime", "")),
    )


def parse_upload_event(message: PushMessage) -> UploadEvent:
    resource = _json_object(message.data, "the notification's object resource")
    attributes = message.attributes
    try:
        return UploadEvent(
            event_type=attributes["eventType"],
            name=attributes["objectId"],
            upload=Input(
                bucket=attributes["bucketId"],
                object=attributes["objectId"],
                generation=int(attributes["objectGeneration"]),
                content_type=str(resource.get("contentType", "application/octet-stream")),
                # Cloud Storage writes numbers of 64 bits as strings.
                bytes=int(resource["size"]),
            ),
            happened_at=attributes.get("eventTime", ""),
            metadata=dict(resource.get("metadata", {})),
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise MalformedMessageError(f"this is no notification of Cloud Storage: {error}") from error


def parse_conversion_message(message: PushMessage) -> ConversionMessage:
    fields = _json_object(message.data, "the conversion message")
    upload, client = fields.get("upload"), fields.get("client")
    if not isinstance(upload, dict):
        raise MalformedMessageError("the conversion message has no object `upload`")
    try:
        return ConversionMessage(
            voice_id=parse_voice_id(str(fields["voice_id"])),
            upload=Input(
                bucket=str(upload["bucket"]),
                object=str(upload["object"]),
                generation=int(upload["generation"]),
                content_type=str(upload["content_type"]),
                bytes=int(upload["bytes"]),
            ),
            client=client if isinstance(client, str) else None,
        )
    except (KeyError, OverflowError, TypeError, ValueError, InvalidVoiceIdError) as error:
        raise MalformedMessageError(f"this is no conversion message: {error}") from error


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedMessageError(f"{what} is not a JSON object")
    return value
