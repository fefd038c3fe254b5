"""Objects in the two buckets: their names, what is known of them, what can be wrong with them.

This module is pure; `shared.google.cloud_storage` does the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.voice import InvalidVoiceIdError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class ObjectMissingError(LookupError):
    """There is no such object, or no longer this generation of it."""


class ObjectExistsError(Exception):
    """An object of this name is there already; nothing was written."""


class StorageUnavailableError(Exception):
    """Cloud Storage did not answer; trying again later can help."""


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """What a client needs to upload one recording.

    Attributes:
        method: the HTTP method.
        url: the address; it works once, for this object, size and type, until `expires_at`.
        headers: headers that the client must send exactly so, because they are signed.
        expires_at: when the address stops working.
        max_bytes: the largest size that is accepted.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: datetime
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """An object as it was found or written."""

    bucket: str
    name: str
    generation: int
    content_type: str
    bytes: int


def upload_name(voice_id: str) -> str:
    """Return the name of a voice's recording: the server makes it, from the voice_id alone."""
    return parse_voice_id(voice_id)


def result_name(voice_id: str, attempt: int, extension: str) -> str:
    """Return the name of the result of one attempt at a voice."""
    return f"{parse_voice_id(voice_id)}/{attempt}.{extension}"


def voice_of_upload(name: str) -> str | None:
    """Return the voice_id an upload's name stands for, or None if no upload is named so."""
    try:
        return parse_voice_id(name)
    except InvalidVoiceIdError:
        return None
