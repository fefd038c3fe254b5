"""Recordings that come in one request: read within bounds, and decoded in the sandbox."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from functions.compat.elevenlabs.errors import FieldError
from functions.compat.keys.access import takes_turns_as
from functions.compat.speech.requests import in_seconds
from shared.http.push import OverloadedError
from speech.decoding.recordings.recording import DecodeLimits
from speech.results.wav import wav_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.datastructures import FormData
    from starlette.types import Message, Receive

    from conversion.admission import Admission
    from speech.decoding.decoder import Decoder
    from speech.decoding.recordings.recording import Recording

RAW_FORMAT: Final = "pcm_s16le_16"
_RAW_RATE: Final = 16_000
_RAW_FRAME_BYTES: Final = 2
_MOST_FIELDS: Final = 16
_FIELD_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """What one recording, and all that are here at once, may take.

    Attributes:
        max_seconds: the longest recording.
        max_bytes: the largest encoded recording.
        at_once: how many recordings are here at once, from their first byte until they are decoded.
        seconds_to_come: how long one may take to come.
    """

    max_seconds: float = 300.0
    max_bytes: int = 32 << 20
    at_once: int = 8
    seconds_to_come: float = 60.0

    @property
    def decoding(self) -> DecodeLimits:
        """The limits of decoding one."""
        return DecodeLimits(min_seconds=0.1, max_seconds=self.max_seconds, max_bytes=self.max_bytes)


class Recordings:
    """Takes recordings in.

    Args:
        decoder: decodes them.
        admission: how much is done at once in this process.
        limits: of the recordings.
    """

    def __init__(self, decoder: Decoder, admission: Admission, limits: RecordingLimits) -> None:
        self._decoder = decoder
        self._admission = admission
        self._limits = limits
        self._here: Counter[str | None] = Counter()

    @asynccontextmanager
    async def form(self, request: Request) -> AsyncIterator[FormData]:
        """Read a form with a recording; its files are gone at the end of the context.

        Raises:
            OverloadedError: as many recordings as may be here are here, or the client has half of
                these places.
            HTTPException: the body is too large or no form.
        """
        client, places = takes_turns_as(request.scope), self._limits.at_once
        most_of_one = places if client is None else max(1, places // 2)
        if self._here.total() >= places or self._here[client] >= most_of_one:
            raise OverloadedError(
                f"all {places} places for recordings, or this client's, are taken"
            )
        with self._admission.admit(client, waits=True):
            pass  # refuses at once what would be refused when it is here
        self._here[client] += 1
        try:
            parser = MultiPartParser(
                request.headers,
                Request(request.scope, self._bounded(request)).stream(),
                max_files=1,
                max_fields=_MOST_FIELDS,
                max_part_size=_FIELD_BYTES,
            )
            try:
                form = await _parse(parser)
                # Only now: a recording that comes slowly keeps nobody from speaking.
                with self._admission.admit(client, waits=True):
                    yield form
            finally:
                # Also those of a form that was cut off, which nothing else closes.
                for file in parser._files_to_close_on_error:  # noqa: SLF001 - see above
                    file.close()
        finally:
            self._here[client] -= 1
            self._here += Counter()  # forgets who has none

    async def decode(self, form: FormData) -> Recording:
        """Decode the recording in the field `audio`.

        Raises:
            FieldError: there is none, or it has not the form that `file_format` says.
            VoiceError: the recording is the reason.
            ResourceLimitError: the recording or the machine is the reason.
            DecoderUnavailableError: the machine is.
        """
        file = form.get("audio")
        if not isinstance(file, UploadFile):
            raise FieldError("audio", "Send the recording as a file in the field 'audio'.")
        data = await file.read()
        file_format = form.get("file_format") or "other"
        if file_format == RAW_FORMAT:
            data = _as_wav(data)
        elif file_format != "other":
            raise FieldError("file_format", f"Expected '{RAW_FORMAT}' or 'other'.")
        return await self._decoder.decode(data, limits=self._limits.decoding)

    def _bounded(self, request: Request) -> Receive:
        """Return the request's `receive`, which fails when the body is too large or too slow."""
        left = self._limits.max_bytes + _MOST_FIELDS * _FIELD_BYTES
        receive_in_time = in_seconds(request.receive, self._limits.seconds_to_come)

        async def receive() -> Message:
            nonlocal left
            message = await receive_in_time()
            left -= len(message.get("body", b""))
            if left < 0:
                most = self._limits.max_bytes
                detail = f"The recording is too large: at most {most} bytes are taken."
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return message

        return receive


async def _parse(parser: MultiPartParser) -> FormData:
    """Read a form.

    Raises:
        HTTPException: it is none.
    """
    try:
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        # Without a boundary in the content type there is none to look for.
        reason = error.message if isinstance(error, MultiPartException) else "no boundary"
        detail = f"Send the recording as multipart/form-data: {reason}"
        raise HTTPException(HTTPStatus.BAD_REQUEST, detail) from error


def _as_wav(data: bytes) -> bytes:
    """Give raw samples a header, so that they go the way of every recording.

    Raises:
        FieldError: they are no whole samples.
    """
    if len(data) % _RAW_FRAME_BYTES:
        raise FieldError("audio", f"Expected samples of 16 bits for '{RAW_FORMAT}'.")
    return wav_file(data, _RAW_RATE, channels=1)
