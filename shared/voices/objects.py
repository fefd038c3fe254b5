"""Objects in the two buckets, and the errors about them; the port is in `shared.ports`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.voices.voice import Input, InvalidVoiceIdError, PassingError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class ObjectMissingError(LookupError):
    pass


class ObjectExistsError(Exception):
    """An object of this name exists already; nothing was written."""


class StorageUnavailableError(PassingError):
    pass


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A signed request with which a client uploads one recording."""

    method: str
    url: str  # works once, for this object, size and type, until `expires_at`
    headers: Mapping[str, str]
    expires_at: datetime
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    bucket: str
    name: str
    generation: int
    content_type: str
    bytes: int

    def as_input(self) -> Input:
        return Input(self.bucket, self.name, self.generation, self.content_type, self.bytes)


def upload_name(voice_id: str) -> str:
    return parse_voice_id(voice_id)


def result_name(voice_id: str, attempt: int, extension: str) -> str:
    return f"{parse_voice_id(voice_id)}/{attempt}.{extension}"


def voice_of_upload(name: str) -> str | None:
    """Return the voice_id in the name of an upload; None for any other name."""
    try:
        return parse_voice_id(name)
    except InvalidVoiceIdError:
        return None
