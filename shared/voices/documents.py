"""How a voice is stored as a document: its field names and types in Firestore."""

from __future__ import annotations

import zlib
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.voices.voice import (
    ErrorCode,
    Failure,
    Input,
    Options,
    OutputFormat,
    Result,
    Speaking,
    Status,
    Voice,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_Part = TypeVar("_Part", Input, Options, Result, Speaking)

COLLECTION: Final = "voices"
"""The name of each of the collections that hold one document per voice."""

SHARDS: Final = 16
"""Over how many collections, and parts of the sweep's index, the voices are spread.

Firestore asks that a new collection begins with at most 500 writes a second and grows by half
every five minutes (https://cloud.google.com/firestore/docs/best-practices). So there are several
of them, `shards/0/voices` to `shards/15/voices`; rules, lifetimes and indexes hold for all
collections of one name.

Firestore takes about 500 writes a second where an index begins with a field that only grows, such
as a time: all go to the same place. With the part before the time, each part takes as many. One
query reads up to 30 parts.
"""


def voice_shard(voice_id: str) -> int:
    """Return the collection of a voice; while it is not final, also its part of the index."""
    return zlib.crc32(voice_id.encode()) % SHARDS


def document_path(voice_id: str) -> str:
    """Return the path of a voice's document, to which clients listen."""
    return f"shards/{voice_shard(voice_id)}/{COLLECTION}/{voice_id}"


def to_document(voice: Voice) -> dict[str, Any]:
    """Return the document of a voice; the voice_id is its name, not a field.

    The field `sweep_shard` is there only while the voice is not final. The sweep's index begins
    with it, so final voices are not in the index: writing the result adds nothing to it.
    """
    document = asdict(voice)
    del document["voice_id"]
    document["status"] = voice.status.value
    document["options"]["output_format"] = voice.options.output_format.value
    document["timings"] = dict(voice.timings)
    if voice.error is not None:
        document["error"]["code"] = voice.error.code.value
    if not voice.status.is_final:
        document["sweep_shard"] = voice_shard(voice.voice_id)
    return document


def conversion_answer(voice: Voice) -> dict[str, Any]:
    """Build the answer to a client who waits for a voice that is done.

    Raises:
        ValueError: the voice has no result.
    """
    result = voice.result
    if result is None:
        raise ValueError(f"voice {voice.voice_id} is done without a result")
    facts = asdict(result)
    del facts["bucket"], facts["object"]
    return {
        "voice_id": voice.voice_id,
        "status": voice.status.value,
        "result": facts,
        "timings": dict(voice.timings),
    }


def from_document(voice_id: str, document: Mapping[str, Any]) -> Voice:
    """Return the voice of a document.

    Unknown fields are ignored. A later version of the code may have added them: another deployable
    may already run that version, or have run it before a rollback.

    Raises:
        KeyError, TypeError, ValueError: the document was not written by `to_document`.
    """
    options = dict(document["options"])
    options["output_format"] = OutputFormat(options["output_format"])
    options["speaking"] = _optional(Speaking, options.get("speaking"))
    error = document["error"]
    parts = {
        "voice_id": voice_id,
        "status": Status(document["status"]),
        "options": _part(Options, options),
        "input": _optional(Input, document["input"]),
        "result": _optional(Result, document["result"]),
        "error": error and Failure(ErrorCode(error["code"]), error["message"]),
    }
    return Voice(**_known(Voice, document) | parts)


def _optional(kind: type[_Part], document: Mapping[str, Any] | None) -> _Part | None:
    return None if document is None else _part(kind, document)


def _part(kind: type[_Part], document: Mapping[str, Any]) -> _Part:
    return kind(**_known(kind, document))


def _known(
    kind: type[Voice | Input | Options | Result | Speaking], document: Mapping[str, Any]
) -> dict[str, Any]:
    return {each.name: document[each.name] for each in fields(kind) if each.name in document}
