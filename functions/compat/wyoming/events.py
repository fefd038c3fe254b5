"""The events of Wyoming: a line of JSON, then data as JSON and a payload, if there are any.

Everything that a client sends is bounded. The longest that it has a reason to send is a text.
"""

from __future__ import annotations

import json
from asyncio import IncompleteReadError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Mapping

MOST_BYTES: Final = 64 << 10
"""The longest line, data or payload that a client may send."""

VERSION: Final = "1.5.0"
"""The version of the protocol that is written into every event."""


class EventError(Exception):
    """Bytes that are no event; one sentence."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        type: what it is.
        data: about it.
        payload: sound, if it holds any.
    """

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def write(self) -> bytes:
        """Return it as it is sent."""
        header: dict[str, Any] = {"type": self.type, "version": VERSION}
        # JSON can name half of a surrogate pair, which UTF-8 cannot hold.
        written = json.dumps(self.data, ensure_ascii=False).encode(errors="replace")
        data = written if self.data else b""
        if data:
            header["data_length"] = len(data)
        if self.payload:
            header["payload_length"] = len(self.payload)
        return json.dumps(header).encode() + b"\n" + data + self.payload


async def read_event(reader: StreamReader) -> Event | None:
    """Read an event; None if the client has ended the connection.

    Args:
        reader: whose limit for a line is MOST_BYTES.

    Raises:
        EventError: it is none, or too long.
    """
    try:
        line = await reader.readline()
        if not line:
            return None
        header = _object(line)
        data = dict(_part(header, "data"))
        size = _length(header, "data_length")
        if size:
            data |= _object(await reader.readexactly(size))
        payload = await reader.readexactly(_length(header, "payload_length"))
    except ValueError as error:
        raise EventError(f"A line may have at most {MOST_BYTES} bytes.") from error
    except IncompleteReadError as error:
        raise EventError("The connection ended inside of an event.") from error
    kind = header.get("type")
    if not isinstance(kind, str):
        raise EventError("Expected an event with a type.")
    return Event(kind, data, payload)


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EventError("Expected an event as a line of JSON.") from error
    if not isinstance(found, dict):
        raise EventError("Expected an event as a JSON object.")
    return found


def _part(header: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = header.get(name) or {}
    if not isinstance(found, dict):
        raise EventError(f"Expected an object in {name!r}.")
    return found


def _length(header: Mapping[str, Any], name: str) -> int:
    found = header.get(name) or 0
    if not isinstance(found, int) or not 0 <= found <= MOST_BYTES:
        raise EventError(f"{name!r} may be at most {MOST_BYTES}.")
    return found
