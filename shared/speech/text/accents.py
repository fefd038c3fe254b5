"""Japanese as accent phrases: morae, and where the pitch falls."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from shared.speech.text.front_end import Reading, speakable
from shared.speech.text.phonemes import (
    HIGH,
    KANA,
    LONG,
    LOW,
    PAD,
    PUNCTUATION,
    SOUNDS,
    UNREADABLE,
    MoraSound,
    Phonemes,
    SpokenWord,
    phonemes,
    split_morae,
    spoken_words,
    tones_of_phones,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SIGNS = frozenset(PUNCTUATION)
_QUESTION = "?"
_PROLONGED = frozenset("aiueoN")
_LABEL = re.compile(
    r"-(?P<phone>[^+]+)\+.*/A:-?\w+\+(?P<place>\w+)\+"
    r".*/F:(?P<phrase>(?P<morae>\w+?)_(?P<accent>[^#]+)#[^/]+)/"
)
_NO_PHRASE = "xx"
_DEVOICED = frozenset("AIUEO")


@dataclass(frozen=True)
class Mora:
    """One mora, or a sign.

    Attributes:
        sound: what it sounds like; None for a sign.
    """

    kana: str
    sound: MoraSound | None
    is_devoiced: bool = False


@dataclass(frozen=True)
class AccentPhrase:
    """Morae that are spoken with one accent, and the signs after them.

    Attributes:
        accent: number of the last high mora, from 1.
    """

    morae: tuple[Mora, ...]
    accent: int

    @property
    def is_question(self) -> bool:
        """Whether a question mark follows."""
        return any(mora.sound is None and mora.kana == _QUESTION for mora in self.morae)

    @property
    def sounding(self) -> tuple[Mora, ...]:
        """The morae without the signs."""
        return tuple(mora for mora in self.morae if mora.sound is not None)


@dataclass(frozen=True)
class _Measure:
    """An accent phrase of the labels: how many morae, the accent, and which are devoiced."""

    morae: int
    accent: int
    devoiced: frozenset[int]


def mora_of(kana: str) -> Mora | None:
    """Find the mora that katakana stands for, or the sign; None if it is neither."""
    if kana in SOUNDS:
        return Mora(kana, SOUNDS[kana])
    return Mora(kana, None) if kana in _SIGNS else None


def accent_phrases(reading: Reading) -> list[AccentPhrase]:
    """Find the accent phrases of a text as it is read."""
    morae = list(_morae(spoken_words(reading)))
    measures = _measures(reading.labels)
    sounding = sum(1 for mora in morae if mora.sound is not None)
    if sum(measure.morae for measure in measures) != sounding:
        measures = _measures_between_signs(morae)
    return list(_cut(morae, measures))


def _morae(words: Iterable[SpokenWord]) -> Iterator[Mora]:
    vowel = ""
    for word in words:
        for kana in split_morae(word.reading):
            mora = _prolong(vowel) if kana == LONG else mora_of(kana) or Mora(UNREADABLE, None)
            vowel = mora.sound.vowel if mora.sound else ""
            yield mora


def _prolong(vowel: str) -> Mora:
    if vowel not in _PROLONGED:
        return Mora("-", None)
    sound = MoraSound(None, vowel)
    return Mora(KANA[sound], sound)


def _measures(labels: Sequence[str]) -> list[_Measure]:
    found = [match for label in labels if (match := _LABEL.search(label))]
    # Neighbouring phrases differ in this part of their labels, or have a pause between them.
    phrases = groupby(found, key=lambda match: match["phrase"])
    return [_measure(list(phrase)) for key, phrase in phrases if not key.startswith(_NO_PHRASE)]


def _measure(labels: Sequence[re.Match[str]]) -> _Measure:
    """Measure a phrase, or the part of one that lies between two pauses."""
    places = sorted({int(label["place"]) for label in labels})
    before = places[0] - 1
    accent = int(labels[0]["accent"]) - before
    devoiced = {int(label["place"]) - before for label in labels if label["phone"] in _DEVOICED}
    is_inside = 1 <= accent <= len(places)
    return _Measure(len(places), accent if is_inside else len(places), frozenset(devoiced))


def _measures_between_signs(morae: Iterable[Mora]) -> list[_Measure]:
    """Take what stands between signs as flat phrases, where readings and labels disagree."""
    runs = groupby(morae, key=lambda mora: mora.sound is not None)
    lengths = [len(list(run)) for is_sound, run in runs if is_sound]
    return [_Measure(length, length, frozenset()) for length in lengths]


def _cut(morae: Sequence[Mora], measures: Iterable[_Measure]) -> Iterator[AccentPhrase]:
    """Deal morae to phrases; signs belong to the phrase before them."""
    position = _signs_from(morae, 0)
    if position:
        yield AccentPhrase(tuple(morae[:position]), 1)
    for measure in measures:
        phrase: list[Mora] = []
        while len(phrase) < measure.morae:
            mora = morae[position]
            position += 1
            if mora.sound is not None:
                phrase.append(replace(mora, is_devoiced=len(phrase) + 1 in measure.devoiced))
        end = _signs_from(morae, position)
        yield AccentPhrase((*phrase, *morae[position:end]), min(measure.accent, measure.morae))
        position = end


def _signs_from(morae: Sequence[Mora], position: int) -> int:
    while position < len(morae) and morae[position].sound is None:
        position += 1
    return position


def phonemes_of(phrases: Sequence[AccentPhrase], text: Phonemes | None = None) -> Phonemes:
    """Turn accent phrases into phones."""
    if text is None or not text.text:
        return _as_text(phrases)
    phones, tones = _sounds(phrases)
    word2ph = align(text.word2ph, text.phones, phones)
    return Phonemes(text.words, phones, tones, word2ph)


def _as_text(phrases: Iterable[AccentPhrase]) -> Phonemes:
    morae = [mora for phrase in phrases for mora in phrase.morae]
    words = tuple(SpokenWord(hiragana(mora.kana), mora.kana) for mora in morae)
    phones, tones = _sounds(phrases)
    counts = [count for mora in morae for count in _deal(mora)]
    return Phonemes(words, phones, tones, (1, *counts, 1))


def _deal(mora: Mora) -> list[int]:
    phones = len(mora.sound.phones) if mora.sound else 1
    each, more = divmod(phones, len(mora.kana))
    return [each + (index < more) for index in range(len(mora.kana))]


def hiragana(katakana: str) -> str:
    """Write katakana as hiragana."""
    return "".join(
        chr(ord(kana) - 0x60) if "ァ" <= kana <= "ヶ" and kana != "ヴ" else kana
        for kana in katakana
    )


def _sounds(phrases: Iterable[AccentPhrase]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    phones, tones = [PAD], [LOW]
    for phrase in phrases:
        for number, mora in enumerate(phrase.morae, start=1):
            if mora.sound is None:
                phones.append(mora.kana)
                tones.append(LOW)
                continue
            tone = HIGH if number <= phrase.accent and (number > 1 or phrase.accent == 1) else LOW
            phones += mora.sound.phones
            tones += [tone] * len(mora.sound.phones)
    return (*phones, PAD), (*tones, LOW)


def align(word2ph: Sequence[int], phones: Sequence[str], given: Sequence[str]) -> tuple[int, ...]:
    """Say how many of other phones each character has, when a text is read otherwise.

    Phones that are the same stay with their character; those that are new go to the character
    whose phones they stand in for, or stand after.

    Returns:
        Numbers that sum up to len(given), 1 at both ends.
    """
    inner = range(1, len(word2ph) - 1)
    owners = [index for index in inner for _ in range(word2ph[index])] or [1]
    counts = [0] * len(word2ph)
    counts[0] = counts[-1] = 1
    matcher = SequenceMatcher(None, phones[1:-1], given[1:-1], autojunk=False)
    for _, begin, end, given_begin, given_end in matcher.get_opcodes():
        for offset in range(given_end - given_begin):
            place = min(begin + offset, max(end - 1, begin - 1))
            counts[owners[max(place, 0)]] += 1
    return tuple(counts)


_LABELS_DEVOICED = "’"
_NOTHING = "*"
_PAUSE = "、"


def labels_of(phrases: Sequence[AccentPhrase]) -> tuple[str, ...]:
    """Make full-context labels: silence at both ends, and a pause wherever signs stand."""
    # See shared.speech.text.front_end for why not at the top.
    import pyopenjtalk  # noqa: PLC0415

    features = [feature for phrase in phrases for feature in _features(phrase)]
    if not any(phrase.sounding for phrase in phrases):
        return ()
    return tuple(pyopenjtalk.make_label(speakable(features)))


def _features(phrase: AccentPhrase) -> Iterator[dict[str, Any]]:
    accent = phrase.accent
    for is_sound, run in groupby(phrase.morae, key=lambda mora: mora.sound is not None):
        if is_sound:
            morae = list(run)
            yield _word(morae, accent)
            accent -= len(morae)
        else:
            is_question = any(mora.kana == "?" for mora in run)
            yield _feature("？" if is_question else _PAUSE) | {"pos": "記号"}


def _word(morae: Iterable[Mora], accent: int) -> dict[str, Any]:
    morae = list(morae)
    kana = "".join(mora.kana for mora in morae)
    spoken = "".join(mora.kana + _LABELS_DEVOICED * mora.is_devoiced for mora in morae)
    # Open JTalk writes an accent on the last mora as none at all.
    accented = accent if 1 <= accent < len(morae) else 0
    return _feature(kana) | {"pron": spoken, "acc": accented, "mora_size": len(morae)}


def _feature(text: str) -> dict[str, Any]:
    """Describe a word as Open JTalk does."""
    return {
        "string": text,
        "pos": "名詞",
        "pos_group1": "一般",
        "pos_group2": _NOTHING,
        "pos_group3": _NOTHING,
        "ctype": _NOTHING,
        "cform": _NOTHING,
        "orig": text,
        "read": text,
        "pron": text,
        "acc": 0,
        "mora_size": 0,
        "chain_rule": _NOTHING,
        "chain_flag": 0,
    }


def words_of_phones(reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the word of each phone of the labels, pauses apart: its number from 0, and its text.

    Nothing is computed before the first is asked for.
    """
    known = phonemes(reading)
    spoken = (PAD, *(each.phone for each in tones_of_phones(reading.labels)), PAD)
    # The padding at both ends stands for no character.
    counts = iter(align(known.word2ph, known.phones, spoken)[1:-1])
    for number, word in enumerate(known.words):
        for _ in range(sum(islice(counts, len(word.text)))):
            yield number, word.text
