"""Japanese as accent phrases: morae, and where the pitch falls."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby, islice
from typing import Any, NamedTuple

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
    deal,
    phonemes,
    split_morae,
    spoken_words,
    tones_of_phones,
)

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
    kana: str
    sound: MoraSound | None
    is_devoiced: bool = False


@dataclass(frozen=True)
class AccentPhrase:
    """Morae with one accent, the number of the last high mora from 1, and the signs after them."""

    morae: tuple[Mora, ...]
    accent: int

    @property
    def is_question(self) -> bool:
        return any(mora.sound is None and mora.kana == _QUESTION for mora in self.morae)

    @property
    def sounding(self) -> tuple[Mora, ...]:
        return tuple(mora for mora in self.morae if mora.sound is not None)


class _Measure(NamedTuple):
    """An accent phrase of the labels: how many morae, the accent, and which are devoiced."""

    morae: int
    accent: int
    devoiced: frozenset[int]


def mora_of(kana: str) -> Mora | None:
    if kana in SOUNDS:
        return Mora(kana, SOUNDS[kana])
    return Mora(kana, None) if kana in _SIGNS else None


def accent_phrases(reading: Reading) -> list[AccentPhrase]:
    morae = list(_morae(spoken_words(reading)))
    found = [match for label in reading.labels if (match := _LABEL.search(label))]
    # Neighbouring phrases differ in this part of their labels, or have a pause between them.
    phrases = groupby(found, key=lambda match: match["phrase"])
    measures = [_measure(list(run)) for key, run in phrases if not key.startswith(_NO_PHRASE)]
    if sum(measure.morae for measure in measures) != sum(mora.sound is not None for mora in morae):
        # Readings and labels disagree: morae between signs become flat phrases.
        runs = groupby(morae, key=lambda mora: mora.sound is not None)
        lengths = [len(list(run)) for is_sound, run in runs if is_sound]
        measures = [_Measure(length, length, frozenset()) for length in lengths]
    return list(_cut(morae, measures))


def _morae(words: Iterable[SpokenWord]) -> Iterator[Mora]:
    vowel = ""
    for word in words:
        for kana in split_morae(word.reading):
            if kana != LONG:
                mora = mora_of(kana) or Mora(UNREADABLE, None)
            elif vowel in _PROLONGED:
                sound = MoraSound(None, vowel)
                mora = Mora(KANA[sound], sound)
            else:
                mora = Mora("-", None)
            vowel = mora.sound.vowel if mora.sound else ""
            yield mora


def _measure(labels: Sequence[re.Match[str]]) -> _Measure:
    places = sorted({int(label["place"]) for label in labels})
    before = places[0] - 1
    accent = int(labels[0]["accent"]) - before
    devoiced = {int(label["place"]) - before for label in labels if label["phone"] in _DEVOICED}
    is_inside = 1 <= accent <= len(places)
    return _Measure(len(places), accent if is_inside else len(places), frozenset(devoiced))


def _cut(morae: Sequence[Mora], measures: Iterable[_Measure]) -> Iterator[AccentPhrase]:
    rest = deque(morae)

    def signs() -> Iterator[Mora]:
        while rest and rest[0].sound is None:
            yield rest.popleft()

    if first := tuple(signs()):
        yield AccentPhrase(first, 1)
    for measure in measures:
        phrase: list[Mora] = []
        while len(phrase) < measure.morae:
            mora = rest.popleft()
            if mora.sound is not None:
                phrase.append(replace(mora, is_devoiced=len(phrase) + 1 in measure.devoiced))
        yield AccentPhrase((*phrase, *signs()), min(measure.accent, measure.morae))


def phonemes_of(phrases: Sequence[AccentPhrase], text: Phonemes | None = None) -> Phonemes:
    """Turn accent phrases into phones, aligned with a text or with their own kana."""
    phones, tones = [PAD], [LOW]
    for phrase in phrases:
        for number, mora in enumerate(phrase.morae, start=1):
            is_high = number <= phrase.accent and (number > 1 or phrase.accent == 1)
            sounds = mora.sound.phones if mora.sound else (mora.kana,)
            phones += sounds
            tones += [HIGH if is_high and mora.sound else LOW] * len(sounds)
    phones, tones = [*phones, PAD], [*tones, LOW]
    if text is not None and text.text:
        counted = align(text.word2ph, text.phones, phones)
        return Phonemes(text.words, tuple(phones), tuple(tones), counted)
    morae = [mora for phrase in phrases for mora in phrase.morae]
    words = tuple(SpokenWord(hiragana(mora.kana), mora.kana) for mora in morae)
    counts = [
        count
        for mora in morae
        for count in deal(len(mora.sound.phones) if mora.sound else 1, len(mora.kana))
    ]
    return Phonemes(words, tuple(phones), tuple(tones), (1, *counts, 1))


def hiragana(katakana: str) -> str:
    return "".join(
        chr(ord(kana) - 0x60) if "ァ" <= kana <= "ヶ" and kana != "ヴ" else kana
        for kana in katakana
    )


def align(word2ph: Sequence[int], phones: Sequence[str], given: Sequence[str]) -> tuple[int, ...]:
    """Count the phones of each character when a text is read otherwise, 1 at both ends."""
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
_PAUSE = "、"


def labels_of(phrases: Sequence[AccentPhrase]) -> tuple[str, ...]:
    """Make full-context labels: silence at both ends, and a pause for signs."""
    import pyopenjtalk  # noqa: PLC0415 - see front_end.Reader

    features = [feature for phrase in phrases for feature in _features(phrase)]
    if not any(phrase.sounding for phrase in phrases):
        return ()
    return tuple(pyopenjtalk.make_label(speakable(features)))


def _features(phrase: AccentPhrase) -> Iterator[dict[str, Any]]:
    accent = phrase.accent
    for is_sound, run in groupby(phrase.morae, key=lambda mora: mora.sound is not None):
        morae = list(run)
        if not is_sound:
            is_question = any(mora.kana == _QUESTION for mora in morae)
            yield _feature("？" if is_question else _PAUSE) | {"pos": "記号"}
            continue
        spoken = "".join(mora.kana + _LABELS_DEVOICED * mora.is_devoiced for mora in morae)
        # Open JTalk writes an accent on the last mora as none at all.
        accented = accent if 1 <= accent < len(morae) else 0
        word = _feature("".join(mora.kana for mora in morae))
        yield word | {"pron": spoken, "acc": accented, "mora_size": len(morae)}
        accent -= len(morae)


def _feature(text: str) -> dict[str, Any]:
    return {
        "string": text, "pos": "名詞", "pos_group1": "一般", "pos_group2": "*", "pos_group3": "*",
        "ctype": "*", "cform": "*", "orig": text, "read": text, "pron": text, "acc": 0,
        "mora_size": 0, "chain_rule": "*", "chain_flag": 0,
    }  # fmt: skip


def words_of_phones(reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the word of each phone without pauses, its number from 0 and text; computed late."""
    known = phonemes(reading)
    spoken = (PAD, *(each.phone for each in tones_of_phones(reading.labels)), PAD)
    # The padding at both ends stands for no character.
    counts = iter(align(known.word2ph, known.phones, spoken)[1:-1])
    for number, word in enumerate(known.words):
        for _ in range(sum(islice(counts, len(word.text)))):
            yield number, word.text
