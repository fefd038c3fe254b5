"""Objects in the two buckets: their names, their properties, and the errors about them.

This module is pure; `shared.ports` is the port through which objects are read and written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.voices.voice import Input, InvalidVoiceIdError, PassingError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class ObjectMissingError(LookupError):
    """The object, or this generation of it, does not exist."""


class ObjectExistsError(Exception):
    """An object of this name exists already; nothing was written."""


class StorageUnavailableError(PassingError):
    """Cloud Storage did not answer."""


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """What a client needs to upload one recording.

    Attributes:
        url: the address; it works once, for this object, size and type, until `expires_at`.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: datetime
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """The properties of an object as it was found or written."""

    bucket: str
    name: str
    generation: int
    content_type: str
    bytes: int

    def as_input(self) -> Input:
        """Return the object as a voice's recording."""
        return Input(self.bucket, self.name, self.generation, self.content_type, self.bytes)


def upload_name(voice_id: str) -> str:
    """Return the name of a voice's recording; it follows from the voice_id alone."""
    return parse_voice_id(voice_id)


def result_name(voice_id: str, attempt: int, extension: str) -> str:
    """Return the name of the result of one attempt at a voice."""
    return f"{parse_voice_id(voice_id)}/{attempt}.{extension}"


def voice_of_upload(name: str) -> str | None:
    """Return the voice_id in the name of an upload, or None if it is no name of an upload."""
    try:
        return parse_voice_id(name)
    except InvalidVoiceIdError:
        return None
