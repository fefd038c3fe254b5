"""The body of a multipart upload: an object resource in JSON, then the content (RFC 2387)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from infra.local.storage.protocol.errors import InvalidArgumentError

if TYPE_CHECKING:
    from infra.local.storage.protocol.resources import Json

MOST_METADATA_BYTES = 1024 * 1024
_METADATA_PART, _CONTENT_PART, _PARTS = 1, 2, 2


class RelatedParts:
    """Takes the body in pieces and hands out the pieces of the content in it."""

    def __init__(self, content_type: str) -> None:
        """Prepare for a body of this content type.

        Raises:
            InvalidArgumentError: it names no boundary.
        """
        media_type, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if not media_type.startswith(b"multipart/") or not boundary:
            raise InvalidArgumentError(
                f"A multipart upload needs a multipart body with a boundary, not {content_type!r}."
            )
        self._metadata = bytearray()
        self._content: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._name, self._value = bytearray(), bytearray()
        self._part = 0
        self._complete = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_part_data": self._on_part_data,
                "on_end": self._on_end,
            },
        )

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece of the body; returns the content's bytes in it.

        Raises:
            InvalidArgumentError: the body is not as announced.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise InvalidArgumentError(f"The multipart body is malformed: {error}") from error
        pieces, self._content = self._content, []
        return pieces

    def resource(self) -> Json:
        """The object resource, with the content part's type where the resource has none.

        Raises:
            InvalidArgumentError: the body ended early or the resource is not a JSON object.
        """
        if not self._complete or self._part != _PARTS:
            raise InvalidArgumentError("The multipart body must have two complete parts.")
        resource = parsed_json(bytes(self._metadata))
        content_type = self._headers.get("content-type")
        return resource if content_type is None else {"contentType": content_type} | resource

    def _on_part_begin(self) -> None:
        self._part += 1

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._part == _CONTENT_PART:
            self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._name, self._value = bytearray(), bytearray()

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == _METADATA_PART:
            self._metadata += data[start:end]
            if len(self._metadata) > MOST_METADATA_BYTES:
                raise InvalidArgumentError("The object resource is too large.")
        else:
            self._content.append(data[start:end])

    def _on_end(self) -> None:
        self._complete = True


def parsed_json(data: bytes) -> Json:
    """A JSON object; nothing at all stands for an empty one.

    Raises:
        InvalidArgumentError: it is something else.
    """
    try:
        value = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArgumentError("The body must be a JSON object.")
    return value
