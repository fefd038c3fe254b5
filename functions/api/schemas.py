"""The bodies of the api's requests and answers, as its OpenAPI description shows them."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from shared.characters.manifest import MAX_STYLE_ID
from shared.voices.media import ALLOWED_UPLOADS, LONGEST_CONTENT_TYPE
from shared.voices.voice import EnglishWords, OutputFormat, Status

# For the OpenAPI description alone: `parse_voice_id` and `parse_content_type` check them.
VOICE_ID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_RECORDING_TYPES: Final = "|".join(sorted(ALLOWED_UPLOADS)).replace(".", r"\.")
CONTENT_TYPE_PATTERN: Final = f"^({_RECORDING_TYPES})(;[ -~]*)?$"

LANGUAGE_PATTERN: Final = "^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$"  # BCP 47
# Names of the two bodies of a request for a voice; no field has such a name.
RECORDING_TAG: Final = "(recording)"
TEXT_TAG: Final = "(text)"
KEY_HEADER: Final = "Own-Character-Key"  # the secret that the owner got at the beginning

_TRY_AGAIN: Final = frozenset({429, 503, 504})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NewVoice(_Model):
    """The options of a new voice that is made from a recording."""

    character: Annotated[str | None, Field(max_length=64)] = None
    pitch_shift: Literal["auto"] | Annotated[float, Field(ge=-24, le=24, strict=True)] = "auto"
    output_format: OutputFormat = OutputFormat.WAV
    content_type: Annotated[
        str,
        Field(max_length=LONGEST_CONTENT_TYPE, json_schema_extra={"pattern": CONTENT_TYPE_PATTERN}),
    ] = "audio/webm"


class NewTextVoice(_Model):
    """A new voice that is made from a text, and how the text is spoken.

    `speed` 2 is twice as fast, `pitch` counts semitones, `intonation` 0 is flat, `volume` and
    `pauses` are factors, and `style` is one of the character's styles, 0 for its usual one.
    `language` is that of the text, such as `en` or `es`; without it each sentence's is detected.
    `english_words` says how English words inside of a Japanese sentence are spoken.
    """

    text: str
    character: Annotated[str | None, Field(max_length=64)] = None
    output_format: OutputFormat = OutputFormat.WAV
    speed: Annotated[float, Field(ge=0.5, le=2, strict=True)] = 1.0
    pitch: Annotated[float, Field(ge=-12, le=12, strict=True)] = 0.0
    intonation: Annotated[float, Field(ge=0, le=2, strict=True)] = 1.0
    volume: Annotated[float, Field(ge=0, le=2, strict=True)] = 1.0
    pauses: Annotated[float, Field(ge=0, le=4, strict=True)] = 1.0
    style: Annotated[int, Field(ge=0, le=MAX_STYLE_ID)] = 0
    language: Annotated[str | None, Field(pattern=LANGUAGE_PATTERN, max_length=35)] = None
    english_words: EnglishWords = EnglishWords.KATAKANA


def kind_of_body(body: Any) -> str:
    has_text = "text" in body if isinstance(body, dict) else isinstance(body, NewTextVoice)
    return TEXT_TAG if has_text else RECORDING_TAG


VoiceRequest = Annotated[
    Annotated[NewVoice, Tag(RECORDING_TAG)] | Annotated[NewTextVoice, Tag(TEXT_TAG)],
    Discriminator(kind_of_body),
]


class Upload(_Model):
    """The request that uploads the recording; send exactly these headers."""

    method: str
    url: str
    headers: dict[str, str]
    expires_at: datetime
    max_bytes: int


class Live(_Model):
    """The address for sending the recording while the visitor speaks; see docs/live.md."""

    url: str
    ticket: str
    expires_at: datetime


class VoiceCreated(_Model):
    """A new voice; `document` is the Firestore path to listen to.

    `upload` says where its recording is uploaded to; it is null if the voice is made from a text.
    `live` is null then, too, and where the service does not offer it. `unread` names the languages
    and scripts of the parts of a text that no voice reads, such as `Korean, Thai`, or is null.
    """

    voice_id: str
    upload: Upload | None
    document: str
    live: Live | None = None
    unread: str | None = None


class CredentialsFacts(_Model):
    """The signed statement (C2PA) of a file."""

    state: Literal["ours", "valid", "changed", "invalid", "missing"]
    made_with: str
    character: str
    issuer: str
    signed_at: str
    forbidden_uses: tuple[str, ...]


class WatermarkFacts(_Model):
    """The watermark in the sound of a file.

    `bits` are the 16 bits that the operator chose, as a number; `chance` is the highest probability
    of such a likeness by chance alone. Both are null unless it is found.
    """

    state: Literal["found", "not_found", "not_searched"]
    bits: int | None
    chance: float | None


class Sentences(_Model):
    en: str
    ja: str


class Verification(_Model):
    """The finding whether a file was made here.

    `verdict` is `unchanged`, `changed` or `copy` if it was; `signed_by_others` or `unknown` if
    there is no sign of it.
    """

    verdict: Literal["unchanged", "changed", "copy", "signed_by_others", "unknown"]
    sentences: Sentences
    credentials: CredentialsFacts
    watermark: WatermarkFacts


class UploadAccepted(_Model):
    voice_id: str
    document: str


class ResultFacts(_Model):
    """The converted audio.

    `phones`: of a text, where the character reports them: each phone in Open JTalk's notation, with
    its start in milliseconds (`o:120 h:205 a:260`); empty otherwise.
    """

    url: str
    url_expires_at: datetime
    content_type: str
    bytes: int
    seconds: float
    sha256: str
    synthetic: dict[str, str]
    phones: str


class DecodedRecording(_Model):
    """The recording that was converted.

    If it was `damaged`, what could not be read was left out: `missing_seconds`, as far as the file
    tells; 0 if it does not tell.
    """

    seconds: float
    damaged: bool
    missing_seconds: float


class ConversionDone(_Model):
    """A voice that is done; `input` is null if it was made from a text."""

    voice_id: str
    status: Status
    input: DecodedRecording | None
    result: ResultFacts
    timings: dict[str, float]


class Text(_Model):
    """A name or description in both languages."""

    ja: str
    en: str


class Licence(_Model):
    name: str
    url: str | None


class SecondsLimits(_Model):
    min_seconds: float
    max_seconds: float


class StyleFacts(_Model):
    id: int
    name: str
    speaker: str | None


class TextFacts(_Model):
    """The speech of a character that takes text; `languages` has the usual one first."""

    max_characters: int
    styles: list[StyleFacts]
    languages: list[str]


class FeatureFacts(_Model):
    """A feature of a portrait: its middle and its width, as shares of the portrait's width."""

    x: float
    y: float
    width: float


class FaceFacts(_Model):
    """The parts of a portrait that move while the character speaks."""

    mouth: FeatureFacts
    eyes: list[FeatureFacts]
    skin: str


class CharacterFacts(_Model):
    id: str
    name: Text
    description: Text | None
    credit: str
    credits: Text
    licence: Licence
    terms_url: str | None
    forbidden_uses: tuple[str, ...]
    colour: str
    portrait_url: str | None
    face: FaceFacts | None
    takes: Literal["speech", "text", "both"]
    limits: SecondsLimits
    text: TextFacts | None


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
    pause = {"description": "Seconds after which to try again", "schema": {"type": "integer"}}
    return {
        status: {
            "description": "An error",
            "content": content,
            "headers": {"Retry-After": pause} if status in _TRY_AGAIN else {},
        }
        for status in statuses
    }
