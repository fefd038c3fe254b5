"""Uploads through the api: their form, and the memory that all of them take together."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from functions.api.problems import Problem
from functions.api.schemas import VOICE_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from typing import BinaryIO

    from starlette.datastructures import FormData
    from starlette.requests import Request


_LOG = logging.getLogger(__name__)

MEMORY_BYTES: Final = 200_000_000  # of 512 MiB, of which the rest needs up to half
COPIES: Final = 3  # of a recording that is stored: received, read, in the library's request


class UploadMemory:
    """Admits recordings while there is memory for them.

    A recording is charged for the bytes that have arrived, with every copy that storing it will
    make. An upload that announces much and sends little therefore takes little. A single recording
    is always admitted.
    """

    def __init__(self, largest: int, most: int = MEMORY_BYTES) -> None:
        self._largest = largest
        self._most = most
        self._taken = 0

    @contextmanager
    def reserve(self, request: Request) -> Iterator[Reservation]:
        """Admit a request whose body was not read yet; free its memory at the end."""
        reservation = Reservation(self)
        # The server reads no more of a body than was announced.
        try:
            announced = int(request.headers.get("content-length", ""))
        except ValueError:
            announced = self._largest
        expected = min(announced, self._largest) if announced >= 0 else self._largest
        self._require_space(COPIES * expected, reservation)
        try:
            yield reservation
        finally:
            self._taken -= reservation.taken

    def take(self, wanted: int, reservation: Reservation) -> None:
        self._require_space(wanted, reservation)
        self._taken += wanted
        reservation.taken += wanted

    def _require_space(self, wanted: int, reservation: Reservation) -> None:
        others = self._taken - reservation.taken
        if others and self._taken + wanted > self._most:
            raise no_memory(f"others take {others} bytes, this one needs {wanted} more")


class Reservation:
    """The memory of one recording: `taken` is the number of bytes charged to it."""

    def __init__(self, memory: UploadMemory) -> None:
        self._memory = memory
        self.taken = 0

    def add(self, received: int) -> None:
        """Charge bytes that have arrived, or raise the `Problem` `unavailable`."""
        self._memory.take(COPIES * received, self)


def no_memory(reason: str) -> Problem:
    _LOG.warning("no memory for a recording: %s", reason, extra={"event": "unavailable"})
    detail = "There is no room for the recording just now; please try again."
    return Problem(503, "unavailable", detail, {"Retry-After": "2"})


FORM_OVERHEAD_BYTES: Final = 16_384  # beside the file: boundaries, headers, the voice_id
BODY_SECONDS: Final = 60.0
MAX_FIELDS: Final = 4  # beside the file; all but the voice_id are ignored
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
    """A recording from a form. Close `content`, which may be on disk."""

    voice_id: str
    content: BinaryIO
    size: int
    content_type: str


class OversizedRecordingError(Exception):
    """The file of a form is too large; `voice_id` is known if its field came before the file."""

    def __init__(self, voice_id: str) -> None:
        super().__init__("the file is too large")
        self.voice_id = voice_id


class _TooLargeError(Exception): ...


async def read_form(
    request: Request, max_bytes: int, reservation: Reservation
) -> ReceivedRecording:
    """Read the form of a request; reading stops right after `max_bytes` of its file."""
    _require_form(request.headers.get("content-type", ""))
    body = _at_most(request, max_bytes + FORM_OVERHEAD_BYTES, reservation)
    parser = MultiPartParser(request.headers, body, max_files=1, max_fields=MAX_FIELDS)
    try:
        return _recording_of(await _parse(parser))
    except BaseException:
        # Nobody else closes the file of a form that was cut off or refused.
        for opened in parser._files_to_close_on_error:  # noqa: SLF001
            opened.close()
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
