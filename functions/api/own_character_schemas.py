"""Bodies of the requests and responses about visitors' own characters."""

from __future__ import annotations

import unicodedata
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from functions.api.schemas import CONTENT_TYPE_PATTERN, Upload
from shared.characters.own.own_character import (  # noqa: TC001 - as above
    OwnCharacterStatus,
    TrainingErrorCode,
    Visibility,
)
from shared.characters.own.recordings import Kind  # noqa: TC001 - as above
from shared.voices.media import LONGEST_CONTENT_TYPE

# Names are shown in pages: no markup, and nothing that hides or turns text.
_PLAIN = r"^[^<>&\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and signs that are invisible
_WIDE_SPACE: Final = "\u3000"  # between the names of Japanese people
_MOST_MARKS: Final = 2  # on a letter; more of them cover the lines around it


def _require_seen(text: str) -> str:
    if not text.replace(_WIDE_SPACE, "").isprintable() or _BLANK & set(text):
        raise ValueError("only characters that can be seen are allowed")
    composed = unicodedata.normalize("NFC", text)
    marks = ("x" if unicodedata.combining(sign) else " " for sign in composed)
    if "x" * (_MOST_MARKS + 1) in "".join(marks):
        raise ValueError("a letter carries too many marks")
    return composed


_Seen: Final = AfterValidator(_require_seen)


def _plain(most: int) -> StringConstraints:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most, pattern=_PLAIN)


class NewOwnCharacter(_Model):
    """A new character of the visitor's own voice, and the terms that its owner agrees to."""

    name: Annotated[str, _plain(40), _Seen]
    language: Literal["en", "ja"]
    owner: Annotated[str, _plain(100), _Seen]
    contact: Annotated[
        str,
        StringConstraints(
            pattern=r"^(https://[^\s/<>&]+(/[^\s<>&]*)?|[^\s@:/<>&]+@[^\s@<>&]+)$", max_length=200
        ),
        _Seen,
    ]
    is_my_own_voice: Literal[True]
    no_public_figure_no_minor: Literal[True]


class OwnCharacterChange(_Model):
    """The changes of an owner; missing fields stay as they are."""

    name: Annotated[str, _plain(40), _Seen] | None = None
    visibility: Visibility | None = None
    keeps_recordings: bool | None = None


class NewRecording(_Model):
    """A recording that the owner is about to upload."""

    kind: Kind
    content_type: Annotated[
        str,
        Field(max_length=LONGEST_CONTENT_TYPE, json_schema_extra={"pattern": CONTENT_TYPE_PATTERN}),
    ] = "audio/webm"


class OwnCharacterCreated(_Model):
    """A new character. This is the only response that has the key."""

    character_id: str
    key: str
    sentence: str
    expires_at: datetime


class ListedOwnCharacter(_Model):
    """A character in the list of a signed-in visitor; see `OwnCharacterFacts`."""

    character_id: str
    name: str
    language: Literal["en", "ja"]
    status: OwnCharacterStatus
    is_usable: bool
    visibility: Visibility
    created_at: datetime


class OwnCharacterList(_Model):
    """The characters of the signed-in visitor: at most 50, newest first."""

    characters: list[ListedOwnCharacter]


class RecordingCreated(_Model):
    recording_id: str
    upload: Upload


class RecordingFacts(_Model):
    recording_id: str
    kind: Kind
    bytes: int


class FailureFacts(_Model):
    """The reason of a failed training, and the ids of the recordings that caused it, if any."""

    code: TrainingErrorCode
    message: str
    recordings: list[str]


class OwnCharacterFacts(_Model):
    """The state of a character; `share` is the completed part of its stage, 0 to 1.

    Clients with Firestore listen to `document` during the training. A character that `is_usable`
    can speak, even while a better training runs.
    """

    character_id: str
    document: str
    name: str
    status: OwnCharacterStatus
    sentence: str
    recordings: list[RecordingFacts]
    stage: str | None
    share: float | None
    error: FailureFacts | None
    expires_at: datetime | None
    is_usable: bool
    visibility: Visibility
    allowed_visibilities: list[Visibility]
    keeps_recordings: bool
    can_train_again: bool


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class OwnersLikeness(_Read):
    """Cosines to the owner's other recordings in the space of a speaker encoder.

    Of held-out recordings: converted, as recorded, and as the synthesis alone renders them.
    """

    converted: float | None
    recorded: float | None
    reachable: float | None


class OthersLikeness(_Read):
    """The same for other people: converted, before, and the part of them that is left."""

    converted: float | None
    before: float | None
    left: float | None


class WrongWords(_Read):
    """English words that a recogniser misunderstood after the conversion."""

    wrong: int
    of: int


class CardFigures(_Read):
    """The measured quality of a character; `words` is null where no recogniser was installed.

    `unused` has the seconds of the recordings that were not learnt, by reason: `another_voice`,
    `echo`, `noise`, `clipped`, `music`, `telephone_quality`, `silence`, `too_short`.
    """

    seconds: float
    unused: dict[str, float] = {}
    likeness: OwnersLikeness
    likeness_of_others: OthersLikeness
    words: WrongWords | None


class Card(CardFigures):
    """The figures, and the names of the sounds to compare: `own-1-original`, `own-1-converted`, ...

    The sounds of the owner's own recordings exist as long as these are kept.
    """

    sounds: list[str]
