"""The form of a voice in its document: field names and types as Firestore stores them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.voice import ErrorCode, Failure, Input, Options, OutputFormat, Result, Status, Voice

if TYPE_CHECKING:
    from collections.abc import Mapping

_Part = TypeVar("_Part", Input, Result)

COLLECTION: Final = "voices"
"""The collection that holds one document per voice."""


def document_path(voice_id: str) -> str:
    """Return the path a client listens to."""
    return f"{COLLECTION}/{voice_id}"


def to_document(voice: Voice) -> dict[str, Any]:
    """Return the document of a voice; the voice_id is its name, not a field."""
    document = asdict(voice)
    del document["voice_id"]
    document["status"] = voice.status.value
    document["options"]["output_format"] = voice.options.output_format.value
    document["timings"] = dict(voice.timings)
    if voice.error is not None:
        document["error"]["code"] = voice.error.code.value
    return document


def from_document(voice_id: str, document: Mapping[str, Any]) -> Voice:
    """Return the voice of a document.

    Raises:
        KeyError, TypeError, ValueError: the document was not written by `to_document`.
    """
    fields = dict(document)
    options = dict(fields.pop("options"))
    options["output_format"] = OutputFormat(options["output_format"])
    error = fields.pop("error")
    return Voice(
        voice_id=voice_id,
        status=Status(fields.pop("status")),
        options=Options(**options),
        input=_optional(Input, fields.pop("input")),
        result=_optional(Result, fields.pop("result")),
        error=error and Failure(ErrorCode(error["code"]), error["message"]),
        **fields,
    )


def _optional(kind: type[_Part], fields: Mapping[str, Any] | None) -> _Part | None:
    return None if fields is None else kind(**fields)
