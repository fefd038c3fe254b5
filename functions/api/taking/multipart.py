"""Reading the multipart upload of clients that cannot use a signed address."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from functions.api.answers.models import VOICE_ID_PATTERN
from functions.api.answers.problems import Problem
from functions.api.taking.upload_memory import no_memory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import BinaryIO

    from starlette.datastructures import FormData
    from starlette.requests import Request

    from functions.api.taking.upload_memory import Reservation

FORM_OVERHEAD_BYTES: Final = 16_384
"""How many bytes a form may have beside the file: boundaries, headers, the voice_id."""

BODY_SECONDS: Final = 60.0
"""How long the whole body of a request may take to arrive."""

MAX_FIELDS: Final = 4
"""How many fields a form may have beside the file; all but the voice_id are ignored."""

_CHARSETS: Final = frozenset({b"utf-8", b"utf8", b"us-ascii"})

OPENAPI: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["voice_id", "file"],
                    "maxProperties": 1 + MAX_FIELDS,
                    "additionalProperties": {"type": "string"},
                    "properties": {
                        "voice_id": {"type": "string", "pattern": VOICE_ID_PATTERN},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            }
        },
    }
}


@dataclass(frozen=True, slots=True)
class ReceivedRecording:
    """A recording from a form; close `content` after use.

    Attributes:
        voice_id: the form's field of that name, not yet checked.
        content: the file, at its beginning; in memory up to 1 MB, otherwise on disk.
        size: its size in bytes.
        content_type: the media type that the form gives for it.
    """

    voice_id: str
    content: BinaryIO
    size: int
    content_type: str


class _TooLargeError(Exception):
    """The request's body is larger than a recording may be."""


async def read_form(
    request: Request, max_bytes: int, reservation: Reservation
) -> ReceivedRecording:
    """Read the form of a request, whose file may have `max_bytes`.

    Reading stops right after that size, so the exact size of a larger file is unknown.

    Args:
        request: the request.
        max_bytes: the largest file.
        reservation: is charged for the bytes as they arrive.

    Raises:
        Problem: `invalid_request` or `unsupported_content_type`: the form is wrong;
            `request_timeout`: it did not arrive in time; `unavailable`: there is no memory left, or
            the disk is full.
        OversizedRecordingError: the file is too large.
    """
    _require_form(request.headers.get("content-type", ""))
    body = _at_most(request, max_bytes + FORM_OVERHEAD_BYTES, reservation)
    parser = MultiPartParser(request.headers, body, max_files=1, max_fields=MAX_FIELDS)
    try:
        return _recording_of(await _parse(parser))
    except BaseException:
        # Nobody else closes the file of a form that was cut off or refused.
        for file in parser._files_to_close_on_error:  # noqa: SLF001
            file.close()
        raise


async def _parse(parser: MultiPartParser) -> FormData:
    try:
        async with asyncio.timeout(BODY_SECONDS) as deadline:
            return await parser.parse()
    except MultiPartException as error:
        raise Problem(422, "invalid_request", f"The form is malformed: {error.message}") from error
    except _TooLargeError as error:
        raise OversizedRecordingError(_text(dict(parser.items), "voice_id")) from error
    except OSError as error:
        if deadline.expired():  # TimeoutError is an OSError
            detail = f"The recording did not arrive within {BODY_SECONDS:g} seconds."
            raise Problem(408, "request_timeout", detail) from error
        # Large files are kept on disk while they are received; another instance may have space.
        raise no_memory(str(error)) from error


def _recording_of(form: FormData) -> ReceivedRecording:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise Problem(422, "invalid_request", "file: the form has no file of this name")
    return ReceivedRecording(
        voice_id=_text(dict(form), "voice_id"),
        content=file.file,
        size=file.size or 0,
        content_type=file.content_type or "application/octet-stream",
    )


def _require_form(content_type: str) -> None:
    media_type, options = parse_options_header(content_type)
    if media_type != b"multipart/form-data":
        detail = "Send multipart/form-data with the fields `voice_id` and `file`."
        raise Problem(415, "unsupported_content_type", detail)
    # Some of Python's codecs take minutes for a megabyte, and others raise unexpected exceptions.
    if options.get(b"charset", b"utf-8").lower() not in _CHARSETS:
        detail = "The form's character set must be UTF-8; leave `charset` out."
        raise Problem(415, "unsupported_content_type", detail)


class OversizedRecordingError(Exception):
    """A form's file is too large; `voice_id` is the form's field if it came before the file."""

    def __init__(self, voice_id: str) -> None:
        super().__init__("the file is too large")
        self.voice_id = voice_id


async def _at_most(
    request: Request, max_bytes: int, reservation: Reservation
) -> AsyncGenerator[bytes]:
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise _TooLargeError
        reservation.add(len(chunk))
        yield chunk


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
