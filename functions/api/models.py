"""The bodies of the api's requests and answers, as its OpenAPI description shows them."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.media import ALLOWED_UPLOADS, LONGEST_CONTENT_TYPE
from shared.voice import OutputFormat, Status

VOICE_ID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
"""Describes a voice_id in the OpenAPI description; `parse_voice_id` checks it."""

CONTENT_TYPE_PATTERN: Final = f"^({'|'.join(sorted(ALLOWED_UPLOADS))})(;[ -~]*)?$".replace(
    ".", r"\."
)
"""Describes the media type of a recording; `parse_content_type` checks it."""

_TRY_AGAIN: Final = frozenset({429, 503, 504})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NewVoice(_Model):
    """The options of a new voice; all of them have defaults."""

    character: Annotated[str | None, Field(max_length=64)] = None
    pitch_shift: Literal["auto"] | Annotated[float, Field(ge=-24, le=24, strict=True)] = "auto"
    output_format: OutputFormat = OutputFormat.WAV
    content_type: Annotated[
        str,
        Field(max_length=LONGEST_CONTENT_TYPE, json_schema_extra={"pattern": CONTENT_TYPE_PATTERN}),
    ] = "audio/webm"


class Upload(_Model):
    """How to upload the recording: send exactly these headers."""

    method: str
    url: str
    headers: dict[str, str]
    expires_at: datetime
    max_bytes: int


class Live(_Model):
    """How to send the recording while the visitor speaks: see docs/live.md."""

    url: str
    ticket: str
    expires_at: datetime


class VoiceCreated(_Model):
    """A voice that waits for its recording; `document` is the Firestore path to listen to.

    `live` is null where the service does not offer it.
    """

    voice_id: str
    upload: Upload
    document: str
    live: Live | None = None


class UploadAccepted(_Model):
    """A recording that was accepted."""

    voice_id: str
    document: str


class ResultFacts(_Model):
    """The converted audio."""

    url: str
    url_expires_at: datetime
    content_type: str
    bytes: int
    seconds: float
    sha256: str
    synthetic: dict[str, str]


class ConversionDone(_Model):
    """A voice that is done."""

    voice_id: str
    status: Status
    result: ResultFacts
    timings: dict[str, float]


class Text(_Model):
    """A name in both languages."""

    ja: str
    en: str


class Licence(_Model):
    """A licence."""

    name: str
    url: str


class SecondsLimits(_Model):
    """How long a recording may be."""

    min_seconds: float
    max_seconds: float


class CharacterFacts(_Model):
    """A character."""

    id: str
    name: Text
    credit: str
    licence: Licence
    terms_url: str
    colour: str
    portrait_url: str | None
    limits: SecondsLimits


class Characters(_Model):
    """All characters; the first is the default."""

    characters: list[CharacterFacts]


class ProblemDetails(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route for OpenAPI."""
    content = {"application/problem+json": {"schema": ProblemDetails.model_json_schema()}}
    return {
        status: {"description": "An error", "content": content, "headers": _headers(status)}
        for status in statuses
    }


def _headers(status: int) -> dict[str, Any]:
    if status not in _TRY_AGAIN:
        return {}
    pause = {"description": "Seconds after which to try again", "schema": {"type": "integer"}}
    return {"Retry-After": pause}
