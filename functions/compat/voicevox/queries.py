"""The bodies that clients of VOICEVOX and AivisSpeech know, in their spelling.

Field names and ranges are those of the engines' OpenAPI documents. As in AivisSpeech, a sign is a
mora with the vowel `pau`, and `kana` holds the text that a query was made from.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator, model_validator

from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
from shared.speech.signal.samples import resample
from shared.speech.text.accents import AccentPhrase, Mora, mora_of
from shared.speech.text.dictionary import (
    PARTS_OF_SPEECH,
    DictionaryWord,
    WordError,
    make_word,
)
from shared.speech.text.duration import estimate_seconds
from shared.speech.text.phonemes import SOUNDS, SPEAKABLE_VOWELS, split_morae

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.speech.signal.sound import Samples

_MOST_MORAE = 500
_MOST_PHRASES = 1_000
_LONGEST_KANA = 10_000
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 192_000

# Numbers of presets and styles have 32 bits, as in the engines.
Number = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]

_Finite = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
_Scale = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


PAUSES = frozenset({"、"})  # other names of a pause, in the queries of VOICEVOX


class MoraBody(BaseModel):
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


class AccentPhraseBody(BaseModel):
    moras: Annotated[list[MoraBody], Field(min_length=1, max_length=_MOST_MORAE), FailFast()]
    accent: int
    pause_mora: MoraBody | None = None
    is_interrogative: bool = False

    @model_validator(mode="after")
    def _accent_lies_within(self) -> AccentPhraseBody:
        if not 1 <= self.accent <= len(self.moras):
            raise ValueError(f"expected an accent from 1 to {len(self.moras)}, found {self.accent}")
        return self


# Only the first error in a list is told: a body may hold millions of them.
AccentPhraseBodies = Annotated[list[AccentPhraseBody], Field(max_length=_MOST_PHRASES), FailFast()]


class _Scales(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    speed_scale: Annotated[float, Field(gt=0, le=100, alias="speedScale")]
    pitch_scale: Annotated[_Finite, Field(ge=-1, le=3, alias="pitchScale")]
    intonation_scale: Annotated[_Scale, Field(alias="intonationScale")]
    tempo_dynamics_scale: Annotated[_Scale, Field(alias="tempoDynamicsScale")] = 1.0
    volume_scale: Annotated[_Scale, Field(alias="volumeScale")]
    pre_phoneme_length: Annotated[_Scale, Field(alias="prePhonemeLength")]
    post_phoneme_length: Annotated[_Scale, Field(alias="postPhonemeLength")]
    pause_length: Annotated[_Scale | None, Field(alias="pauseLength")] = None
    pause_length_scale: Annotated[_Scale, Field(alias="pauseLengthScale")] = 1.0


class AudioQuery(_Scales):
    """A text with its accents, and how to speak it."""

    accent_phrases: AccentPhraseBodies
    output_sampling_rate: Annotated[
        int, Field(ge=_LOWEST_RATE, le=_HIGHEST_RATE, alias="outputSamplingRate")
    ]
    output_stereo: Annotated[bool, Field(alias="outputStereo")]
    kana: Annotated[str | None, Field(max_length=_LONGEST_KANA)] = None


class Preset(_Scales):
    id: Number
    name: Annotated[str, Field(min_length=1, max_length=200)]
    speaker_uuid: Annotated[str, Field(max_length=64)]
    style_id: Number


SAMPLE_RATE = 24_000
_PAUSE = "pau"
_CLOSURE = {"q": "cl"}
_COMMA, _QUESTION, _FULL_STOP = Mora(",", None), Mora("?", None), Mora(".", None)
_USUAL_PAUSE_SECONDS = 0.3
_LOWEST_PITCH = 0.25
_SLOWEST, _FASTEST = 0.25, 4.0
_LONGEST_PAUSE_SECONDS = 0.45


def query_of(phrases: Sequence[AccentPhrase], text: str) -> AudioQuery:
    return AudioQuery(
        accent_phrases=[query_body_of(phrase) for phrase in phrases],
        speed_scale=1.0,
        pitch_scale=0.0,
        intonation_scale=1.0,
        volume_scale=1.0,
        pre_phoneme_length=0.1,
        post_phoneme_length=0.1,
        output_sampling_rate=SAMPLE_RATE,
        output_stereo=False,
        kana=text,
    )


def query_body_of(phrase: AccentPhrase) -> AccentPhraseBody:
    """Write an accent phrase; lengths and pitch are the engine's own, and stay 0."""
    morae = []
    for mora in phrase.morae:
        consonant = mora.sound.consonant if mora.sound else None
        vowel = mora.sound.vowel if mora.sound else _PAUSE
        morae.append(
            MoraBody(
                text=mora.kana,
                consonant=consonant,
                consonant_length=None if consonant is None else 0.0,
                vowel=vowel.upper() if mora.is_devoiced else _CLOSURE.get(vowel, vowel),
                vowel_length=0.0,
                pitch=0.0,
            )
        )
    accent, is_question = phrase.accent, phrase.is_question
    return AccentPhraseBody(moras=morae, accent=accent, is_interrogative=is_question)


def phrases_of(bodies: Iterable[AccentPhraseBody]) -> list[AccentPhrase]:
    phrases = []
    for body in bodies:
        morae = []
        for each in body.moras:
            mora = mora_of(each.text) or _COMMA
            is_devoiced = mora.sound is not None and each.vowel in set("AIUEO")
            morae.append(replace(mora, is_devoiced=is_devoiced))
        signs = {mora.kana for mora in morae if mora.sound is None}
        if body.is_interrogative and _QUESTION.kana not in signs:
            morae.append(_QUESTION)
        if body.pause_mora is not None:
            morae.append(_COMMA)
        phrases.append(AccentPhrase(tuple(morae), body.accent))
    return phrases


def options_of(query: AudioQuery, style: int) -> SpeechOptions:
    pause = query.pause_length_scale
    if query.pause_length is not None:
        pause *= query.pause_length / _USUAL_PAUSE_SECONDS
    return SpeechOptions(
        speed=query.speed_scale,
        pitch=12 * math.log2(max(1 + query.pitch_scale, _LOWEST_PITCH)),
        intonation=query.intonation_scale,
        tempo_dynamics=query.tempo_dynamics_scale,
        volume=query.volume_scale,
        pauses=pause,
        silence_before=query.pre_phoneme_length / query.speed_scale,
        silence_after=query.post_phoneme_length / query.speed_scale,
        style=style,
    )


def characters_of(query: AudioQuery) -> int:
    """Count the characters that a query speaks: its morae and signs.

    The text that it comes from counts only where it has more: some engines read it, too.
    """
    phrases = query.accent_phrases
    spoken = sum(len(each.moras) + (each.pause_mora is not None) for each in phrases)
    return max(spoken, len(query.kana or ""))


def estimate(engine: PhraseEngine, query: AudioQuery, style: int) -> float:
    """Estimate the seconds of a query: the engine does if nobody has changed its phrases."""
    options, phrases = options_of(query, style), phrases_of(query.accent_phrases)
    text = query.kana if any(phrase.sounding for phrase in phrases) else None
    if text is not None and phrases == engine.read_phrases(text):
        return engine.estimate(text, options)
    speed = min(max(options.speed, _SLOWEST), _FASTEST)
    morae = [mora for phrase in query.accent_phrases for mora in phrase.moras]
    pauses = sum(mora.vowel == _PAUSE for mora in morae)
    pauses += sum(phrase.pause_mora is not None for phrase in query.accent_phrases)
    phones = (phone for mora in morae for phone in (mora.consonant, mora.vowel) if phone)
    spoken = estimate_seconds(phones) + _LONGEST_PAUSE_SECONDS * options.pauses * pauses
    return options.silence_before + options.silence_after + spoken / speed


def speak(
    engine: PhraseEngine, query: AudioQuery, style: int, *, raise_questions: bool = True
) -> Iterator[Samples]:
    """Speak a query in pieces at its sample rate, float32 [N], or [N, 2] in stereo."""
    phrases = phrases_of(query.accent_phrases)
    if not raise_questions:
        phrases = [
            replace(each, morae=tuple(_FULL_STOP if m == _QUESTION else m for m in each.morae))
            for each in phrases
        ]
    pieces = engine.speak_phrases(phrases, query.kana, options_of(query, style))

    def shape(piece: Samples) -> Samples:
        samples = resample(piece, engine.sample_rate, query.output_sampling_rate)
        return np.stack([samples, samples], axis=1) if query.output_stereo else samples

    return map(shape, pieces)


_ACCENT, _DEVOICE, _NO_PAUSE, _KANA_PAUSE, _KANA_QUESTION = "'", "_", "/", "、", "？"
_BORDER = re.compile(f"([{_NO_PAUSE}{_KANA_PAUSE}])")


class KanaErrorCode(Enum):
    """VOICEVOX's names of errors in a reading, with their sentences."""

    UNKNOWN_TEXT = "読めない仮名です: {text}"
    ACCENT_TOP = "アクセントはアクセント句の先頭に書けません: {text}"
    ACCENT_TWICE = "アクセントはアクセント句に一つだけ書いてください: {text}"
    ACCENT_NOTFOUND = "アクセントがありません: {text}"
    EMPTY_PHRASE = "{position}番目のアクセント句が空です"
    INTERROGATION_MARK_NOT_AT_END = "「？」は句の最後に書いてください: {text}"


class KanaError(ValueError):
    """A reading that is not in the notation: a part of it (`text`), or a phrase (`position`)."""

    def __init__(self, code: KanaErrorCode, **arguments: str) -> None:
        self.code = code
        self.arguments = arguments
        super().__init__(code.value.format(**arguments))


def parse_kana(text: str) -> list[AccentPhrase]:
    parts = _BORDER.split(text)
    phrases = [_parse_phrase(part, position) for position, part in enumerate(parts[::2], start=1)]
    return [
        replace(phrase, morae=(*phrase.morae, _COMMA)) if border == _KANA_PAUSE else phrase
        for phrase, border in zip(phrases, [*parts[1::2], ""], strict=True)
    ]


def _parse_phrase(text: str, position: int) -> AccentPhrase:
    if text in {"", _KANA_QUESTION}:
        raise KanaError(KanaErrorCode.EMPTY_PHRASE, position=str(position))
    spoken = text.removesuffix(_KANA_QUESTION)
    if _KANA_QUESTION in spoken:
        raise KanaError(KanaErrorCode.INTERROGATION_MARK_NOT_AT_END, text=text)
    if spoken.startswith(_ACCENT):
        raise KanaError(KanaErrorCode.ACCENT_TOP, text=text)
    if spoken.count(_ACCENT) > 1:
        raise KanaError(KanaErrorCode.ACCENT_TWICE, text=text)
    before, accent, after = spoken.partition(_ACCENT)
    high, low = list(_parse_morae(before)), list(_parse_morae(after))
    if not accent:
        raise KanaError(KanaErrorCode.ACCENT_NOTFOUND, text=text)
    question = [_QUESTION] if text.endswith(_KANA_QUESTION) else []
    return AccentPhrase((*high, *low, *question), len(high))


def _parse_morae(text: str) -> Iterator[Mora]:
    is_devoiced = False
    for kana in split_morae(text):
        if kana == _DEVOICE and not is_devoiced:
            is_devoiced = True
            continue
        sound = SOUNDS.get(kana)
        if sound is None or (is_devoiced and sound.vowel not in SPEAKABLE_VOWELS):
            raise KanaError(KanaErrorCode.UNKNOWN_TEXT, text=text)
        yield Mora(kana, sound, is_devoiced)
        is_devoiced = False
    if is_devoiced:
        raise KanaError(KanaErrorCode.UNKNOWN_TEXT, text=text)


_ANY = "*"


class UserDictWord(BaseModel):
    """A word, in the columns of naist-jdic."""

    surface: str
    priority: Annotated[int, Field(ge=0, le=10)] = 5
    context_id: int = 1348
    part_of_speech: str
    part_of_speech_detail_1: str
    part_of_speech_detail_2: str
    part_of_speech_detail_3: str
    inflectional_type: str = _ANY
    inflectional_form: str = _ANY
    stem: str = _ANY
    yomi: str
    pronunciation: str
    accent_type: int
    mora_count: int | None = None
    accent_associative_rule: str = _ANY


def user_dict_word_of(word: DictionaryWord) -> UserDictWord:
    part = PARTS_OF_SPEECH[word.type]
    name, first, second, third = part.names
    return UserDictWord(
        surface=word.surface,
        priority=word.priority,
        context_id=part.context_id,
        part_of_speech=name,
        part_of_speech_detail_1=first,
        part_of_speech_detail_2=second,
        part_of_speech_detail_3=third,
        yomi=word.pronunciation,
        pronunciation=word.pronunciation,
        accent_type=word.accent,
        mora_count=word.morae,
    )


def dictionary_word_of(body: UserDictWord) -> DictionaryWord:
    types = {part.context_id: word_type for word_type, part in PARTS_OF_SPEECH.items()}
    word_type = types.get(body.context_id)
    if word_type is None:
        known = ", ".join(map(str, types))
        raise WordError(f"context_id: expected one of {known}, found {body.context_id}.")
    return make_word(body.surface, body.pronunciation, body.accent_type, word_type, body.priority)
