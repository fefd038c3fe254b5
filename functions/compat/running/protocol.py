"""The messages of `voice-avatar.speech.v1`; docs/compatible-apis.md describes them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

PATH: Final = "/speech"
SUBPROTOCOL: Final = "voice-avatar.speech.v1"


class MessageError(Exception):
    """A message that cannot be taken; one sentence."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Begin(_Message):
    """Begins an utterance."""

    type: Literal["begin"]
    voice: Annotated[str, Field(max_length=200)] | None = None
    format: str = "pcm_24000"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    pitch: Annotated[float, Field(ge=-12.0, le=12.0)] = 0.0
    intonation: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0
    volume: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0
    pauses: Annotated[float, Field(ge=0.0, le=3.0)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    marks: bool = False


class Text(_Message):
    """A piece of the text."""

    type: Literal["text"]
    text: str


class Flush(_Message):
    """Speaks what has come, although no sentence has ended."""

    type: Literal["flush"]


class End(_Message):
    """Says that the text has ended."""

    type: Literal["end"]


class Cancel(_Message):
    """Stops speaking at once."""

    type: Literal["cancel"]


Message = Begin | Text | Flush | End | Cancel
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="type")]
)


def read_message(content: str | bytes | None) -> Message:
    """Read a message.

    Raises:
        MessageError: it is none.
    """
    if not isinstance(content, str):
        raise MessageError("Expected messages of text.")
    try:
        return _MESSAGES.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MessageError(f"{place}: {first['msg']}." if place else f"{first['msg']}.") from error


def write_message(kind: str, **fields: Any) -> str:
    """Write a message to the client."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)
