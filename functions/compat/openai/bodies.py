"""The bodies that clients of OpenAI send and get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from functions.compat.speech.formats import FORMATS_WITHOUT_FILE, Codec, SoundFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_INPUT: Final = 4_096

FORMATS: Final[Mapping[str, SoundFormat]] = {
    "mp3": SoundFormat(Codec.MP3, 24_000, 128_000),
    "opus": SoundFormat(Codec.OPUS, 48_000, 64_000),
    "aac": SoundFormat(Codec.AAC, 24_000, 96_000),
    "flac": SoundFormat(Codec.FLAC, 24_000),
    "wav": SoundFormat(Codec.WAV, 24_000),
    "pcm": SoundFormat(Codec.PCM, 24_000),
    # Further ones, which OpenAI does not have: raw and telephone formats.
    **FORMATS_WITHOUT_FILE,
}

MODELS: Final = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""The names of OpenAI's models that clients offer; every name is taken, and means the same."""

VOICES: Final = frozenset(
    {
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
        *("sage", "shimmer", "verse"),
    }
)
"""OpenAI's own voices: many clients can ask for no other."""


class CustomVoice(BaseModel):
    """A voice by its id, as OpenAI's newer clients send it."""

    id: str


class SpeechRequest(BaseModel):
    """The body of `POST /v1/audio/speech`; unknown fields and null are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(min_length=1, max_length=200)]
    input: Annotated[str, Field(min_length=1, max_length=LONGEST_INPUT)]
    voice: str | CustomVoice
    instructions: Annotated[str | None, Field(max_length=LONGEST_INPUT)] = None
    """Taken and ignored: no voice here follows instructions."""
    response_format: str = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, fields: Any) -> Any:
        """Clients in typed languages send null for each option that nobody has set."""
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def voice_name(self) -> str:
        """The name of the voice."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


def model_body(name: str) -> dict[str, Any]:
    """Describe a model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "voice-avatar"}
