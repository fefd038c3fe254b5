"""The protocol `voice-avatar.live.v1`: its messages, close codes and limits.

One connection carries one voice. Control messages are text, each one JSON object with a `type`;
binary messages are sound. `docs/live.md` describes the protocol for those who write clients.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from shared.voices.media import (
    LONGEST_CONTENT_TYPE,
    UnsupportedContentTypeError,
    parse_content_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

PATH: Final = "/live"
SUBPROTOCOL: Final = "voice-avatar.live.v1"

LARGEST_CONTROL_MESSAGE: Final = 2048  # characters, from a client
LARGEST_PIECE: Final = 256 * 1024  # to a client; the Python library `websockets` takes 1 MiB
START_SECONDS: Final = 5.0  # the time that a client has to send `start`
IDLE_SECONDS: Final = 5.0  # the longest pause of a client after `start`
RECEIVED_SECONDS: Final = 1.0  # the time between two messages about the bytes received
HEARTBEAT_SECONDS: Final = 5.0  # the time after which they repeat, as a sign of life
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Close(Enum):
    """A code of RFC 6455 and a stable reason."""

    NORMAL = (1000, "")
    MALFORMED = (1007, "malformed")
    TICKET_REFUSED = (1008, "ticket_refused")
    ALREADY_UPLOADED = (1008, "already_uploaded")
    UNKNOWN_VOICE = (1008, "unknown_voice")
    UNSUPPORTED_CONTENT_TYPE = (1008, "unsupported_content_type")
    TOO_SLOW = (1008, "too_slow")
    TOO_MANY_MESSAGES = (1008, "too_many_messages")
    TOO_LARGE = (1009, "too_large")
    INTERNAL = (1011, "internal")
    RESTARTING = (1012, "restarting")
    BUSY = (1013, "busy")

    @property
    def code(self) -> int:
        return self.value[0]

    @property
    def reason(self) -> str:
        return self.value[1]


class RetryReason(Enum):
    """The reason for which a recording was not converted here."""

    MISMATCH = "mismatch"
    BUSY = "busy"
    ALREADY_UPLOADED = "already_uploaded"
    RESTARTING = "restarting"
    UNAVAILABLE = "unavailable"


class PreviewEnd(Enum):
    """The reason for which a visitor hears the character no longer, or not at all."""

    BUSY = "busy"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"


class MalformedError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class StartRecording:
    """The first message of a client, with the ticket from `POST /api/v1/voices`."""

    ticket: str
    content_type: str
    hear: bool = False


@dataclass(frozen=True, slots=True)
class EndRecording:
    """The recording is complete; `sha256` is its hexadecimal digest."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CancelRecording:
    pass


def parse(text: str) -> StartRecording | EndRecording | CancelRecording:
    """Read a control message; raise MalformedError, or UnsupportedContentTypeError."""
    if len(text) > LARGEST_CONTROL_MESSAGE:
        raise MalformedError(f"a control message has at most {LARGEST_CONTROL_MESSAGE} characters")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError("a control message is JSON") from error
    if not isinstance(fields, dict):
        raise MalformedError("a control message is a JSON object")
    match fields.get("type"):
        case "start":
            return parse_start(fields)
        case "end":
            return parse_end(fields)
        case "cancel":
            return CancelRecording()
    raise MalformedError("`type` is none of start, end and cancel")


def parse_start(fields: Mapping[str, Any]) -> StartRecording:
    ticket, content_type, hear = (fields.get(name) for name in ("ticket", "content_type", "hear"))
    if not isinstance(ticket, str) or not isinstance(content_type, str):
        raise MalformedError("`start` needs the texts `ticket` and `content_type`")
    if hear is not None and not isinstance(hear, bool):
        raise MalformedError("`hear` is neither true nor false")
    if len(content_type) > LONGEST_CONTENT_TYPE:
        raise UnsupportedContentTypeError("the content type is too long")
    parse_content_type(content_type)
    return StartRecording(ticket, content_type, bool(hear))


def parse_end(fields: Mapping[str, Any]) -> EndRecording:
    size, digest = fields.get("bytes"), fields.get("sha256")
    if type(size) is not int or size < 0:
        raise MalformedError("`end` needs the number `bytes`")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise MalformedError("`end` needs `sha256`, 64 hexadecimal digits in lower case")
    return EndRecording(size, digest)


def hearing_ended(reason: PreviewEnd) -> str:
    return message("hearing_ended", reason=reason.value)


def converted(data: bytes, content_type: str) -> Iterator[str | bytes]:
    """Yield the messages that carry the converted recording: its description, then its pieces."""
    yield message("converted", content_type=content_type, bytes=len(data))
    for begin in range(0, len(data), LARGEST_PIECE):
        yield data[begin : begin + LARGEST_PIECE]


def message(kind: str, **fields: Any) -> str:
    def timestamp(moment: datetime) -> str:
        return moment.isoformat().replace("+00:00", "Z")

    return json.dumps({"type": kind, **fields}, separators=(",", ":"), default=timestamp)
