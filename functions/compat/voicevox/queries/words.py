"""Words of a user dictionary as clients of VOICEVOX know them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from speech.text.phones.dictionary import (
    PARTS_OF_SPEECH,
    DictionaryWord,
    WordError,
    WordType,
    make_word,
)

_ANY = "*"


class UserDictWord(BaseModel):
    """One word, in the columns of naist-jdic."""

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


def body_of(word: DictionaryWord) -> UserDictWord:
    """Write a word as clients know it."""
    part = PARTS_OF_SPEECH[word.type]
    name, *details = part.names
    return UserDictWord(
        surface=word.surface,
        priority=word.priority,
        context_id=part.context_id,
        part_of_speech=name,
        part_of_speech_detail_1=details[0],
        part_of_speech_detail_2=details[1],
        part_of_speech_detail_3=details[2],
        yomi=word.pronunciation,
        pronunciation=word.pronunciation,
        accent_type=word.accent,
        mora_count=word.morae,
    )


def word_of(body: UserDictWord) -> DictionaryWord:
    """Read a word as clients send it when they import a dictionary.

    Raises:
        WordError: it is of no known part of speech, or not as a word must be.
    """
    return make_word(
        body.surface, body.pronunciation, body.accent_type, _type_of(body), body.priority
    )


def _type_of(body: UserDictWord) -> WordType:
    for word_type, part in PARTS_OF_SPEECH.items():
        if part.context_id == body.context_id:
            return word_type
    known = ", ".join(str(part.context_id) for part in PARTS_OF_SPEECH.values())
    raise WordError(f"context_id: expected one of {known}, found {body.context_id}.")
