"""The bodies that clients of VOICEVOX and AivisSpeech know, in their spelling.

Field names and ranges are those of the engines' OpenAPI documents. As AivisSpeech does it, a sign
is a mora whose vowel is `pau`, and `kana` holds the text that a query was made from.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator

from speech.text.phones.accents import mora_of

_MOST_MORAE = 500
_MOST_PHRASES = 1_000
_LONGEST_KANA = 10_000
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 192_000

Number = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
"""Numbers of presets and styles have 32 bits, as in the engines."""

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Scale = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Length = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Mora(BaseModel):
    """One mora, or a sign."""

    text: str
    consonant: str | None = None
    consonant_length: _Finite | None = None
    vowel: str
    vowel_length: _Finite
    pitch: _Finite

    @field_validator("text")
    @classmethod
    def _is_known(cls, text: str) -> str:
        if mora_of(text) is None and text not in PAUSES:
            raise ValueError(f"expected katakana of one mora, or a sign, found {text[:20]!r}")
        return text


PAUSES = frozenset({"、"})
"""Other names of a pause, in the queries of VOICEVOX."""


class AccentPhrase(BaseModel):
    """Morae that are spoken with one accent."""

    moras: Annotated[list[Mora], Field(min_length=1, max_length=_MOST_MORAE), FailFast()]
    accent: int
    pause_mora: Mora | None = None
    is_interrogative: bool = False

    @model_validator(mode="after")
    def _accent_lies_within(self) -> AccentPhrase:
        if not 1 <= self.accent <= len(self.moras):
            raise ValueError(f"expected an accent from 1 to {len(self.moras)}, found {self.accent}")
        return self


AccentPhrases = Annotated[list[AccentPhrase], Field(max_length=_MOST_PHRASES), FailFast()]
"""Of what is wrong in a list only the first is told: there may be millions of it in a body."""


class AudioQuery(BaseModel):
    """A text with its accents, and how it is spoken."""

    model_config = ConfigDict(populate_by_name=True)

    accent_phrases: AccentPhrases
    speed_scale: Annotated[float, Field(gt=0, le=100, alias="speedScale")]
    pitch_scale: Annotated[_Finite, Field(alias="pitchScale")]
    intonation_scale: Annotated[_Scale, Field(alias="intonationScale")]
    tempo_dynamics_scale: Annotated[_Scale, Field(alias="tempoDynamicsScale")] = 1.0
    volume_scale: Annotated[_Scale, Field(alias="volumeScale")]
    pre_phoneme_length: Annotated[_Length, Field(alias="prePhonemeLength")]
    post_phoneme_length: Annotated[_Length, Field(alias="postPhonemeLength")]
    pause_length: Annotated[_Length | None, Field(alias="pauseLength")] = None
    pause_length_scale: Annotated[_Scale, Field(le=100, alias="pauseLengthScale")] = 1.0
    output_sampling_rate: Annotated[
        int, Field(ge=_LOWEST_RATE, le=_HIGHEST_RATE, alias="outputSamplingRate")
    ]
    output_stereo: Annotated[bool, Field(alias="outputStereo")]
    kana: Annotated[str | None, Field(max_length=_LONGEST_KANA)] = None


class Preset(BaseModel):
    """Settings that a client keeps under a number."""

    model_config = ConfigDict(populate_by_name=True)

    id: Number
    name: Annotated[str, Field(min_length=1, max_length=200)]
    speaker_uuid: Annotated[str, Field(max_length=64)]
    style_id: Number
    speed_scale: Annotated[float, Field(gt=0, le=100, alias="speedScale")]
    pitch_scale: Annotated[_Finite, Field(alias="pitchScale")]
    intonation_scale: Annotated[_Scale, Field(alias="intonationScale")]
    tempo_dynamics_scale: Annotated[_Scale, Field(alias="tempoDynamicsScale")] = 1.0
    volume_scale: Annotated[_Scale, Field(alias="volumeScale")]
    pre_phoneme_length: Annotated[_Length, Field(alias="prePhonemeLength")]
    post_phoneme_length: Annotated[_Length, Field(alias="postPhonemeLength")]
    pause_length: Annotated[_Length | None, Field(alias="pauseLength")] = None
    pause_length_scale: Annotated[_Scale, Field(le=100, alias="pauseLengthScale")] = 1.0


WordType = Literal["PROPER_NOUN", "COMMON_NOUN", "VERB", "ADJECTIVE", "SUFFIX"]
