"""The phones that voices of Style-Bert-VITS2 know, and their numbers.

The order is the format's (Style-Bert-VITS2, `nlp/symbols.py`): the padding, the phones of Chinese,
Japanese and English together in the order of their code points, and the signs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from types import MappingProxyType
from typing import NamedTuple

from shared.speech.text.front_end import Reading
from shared.speech.text.normalisation import normalise_signs

PAD = "_"
PUNCTUATION = ("!", "?", "…", ",", ".", "'", "-")
UNREADABLE = "'"  # stands for a character that nobody can read

_PHONES = """
    AA E EE En N OO V a a: aa ae ah ai an ang ao aw ay b by c ch d dh dy e e: eh ei en eng er ey f g
    gy h hh hy i i0 i: ia ian iang iao ie ih in ing iong ir iu iy j jh k ky l m my n ng ny o o: ong
    ou ow oy p py q r ry s sh t th ts ty u u: ua uai uan uang uh ui un uo uw v van ve vn w x y z zh
    zy
"""

SYMBOLS = (PAD, *_PHONES.split(), *PUNCTUATION, "SP", "UNK")

IDS: Mapping[str, int] = MappingProxyType({symbol: id_ for id_, symbol in enumerate(SYMBOLS)})

JAPANESE = 1  # the number of the language

FIRST_JAPANESE_TONE = 6  # the number of Japanese's low tone; Chinese has those before it


_VOWELS = "aiueo"
_NONE = "-"

# Consonant, then the kana before a, i, u, e and o. Where kana sound alike, the later row wins when
# a mora is written as kana again.
_ROWS = (
    ("", "ァ ィ ゥ ェ ォ"),
    ("", "- ヰ - ヱ ヲ"),
    ("", "ア イ ウ エ オ"),
    ("k", "- - - ヶ -"),
    ("k", "カ キ ク ケ コ"),
    ("ky", "キャ - キュ キェ キョ"),
    ("kw", "クヮ - - - -"),
    ("g", "ガ ギ グ ゲ ゴ"),
    ("gy", "ギャ - ギュ ギェ ギョ"),
    ("gw", "グヮ - - - -"),
    ("s", "サ スィ ス セ ソ"),
    ("sh", "シャ シ シュ シェ ショ"),
    ("z", "- - ヅ - -"),
    ("z", "ザ ズィ ズ ゼ ゾ"),
    ("j", "- ヂ - - -"),
    ("j", "ジャ ジ ジュ ジェ ジョ"),
    ("t", "タ ティ トゥ テ ト"),
    ("ty", "テャ - テュ - テョ"),
    ("ch", "チャ チ チュ チェ チョ"),
    ("ts", "ツァ ツィ ツ ツェ ツォ"),
    ("d", "ダ ディ ドゥ デ ド"),
    ("dy", "デャ - デュ - デョ"),
    ("n", "ナ ニ ヌ ネ ノ"),
    ("ny", "ニャ - ニュ ニェ ニョ"),
    ("h", "ハ ヒ - ヘ ホ"),
    ("hy", "ヒャ - ヒュ ヒェ ヒョ"),
    ("f", "ファ フィ フ フェ フォ"),
    ("b", "バ ビ ブ ベ ボ"),
    ("by", "ヴャ - ヴュ - ヴョ"),
    ("by", "ビャ - ビュ ビェ ビョ"),
    ("p", "パ ピ プ ペ ポ"),
    ("py", "ピャ - ピュ ピェ ピョ"),
    ("m", "マ ミ ム メ モ"),
    ("my", "ミャ - ミュ ミェ ミョ"),
    ("y", "ャ - ュ - ョ"),
    ("y", "ヤ - ユ イェ ヨ"),
    ("r", "ラ リ ル レ ロ"),
    ("ry", "リャ - リュ リェ リョ"),
    ("w", "ヮ - - - -"),
    ("w", "ワ ウィ - ウェ ウォ"),
    ("v", "ヴァ ヴィ ヴ ヴェ ヴォ"),
)

LONG = "ー"
_LONGEST_MORA = 2

_PARTS: Mapping[str, tuple[str, str]] = MappingProxyType({"kw": ("k", "w"), "gw": ("g", "w")})


@dataclass(frozen=True)
class MoraSound:
    """The sound of one mora: a consonant or None, and a vowel, `N` or `q`."""

    consonant: str | None
    vowel: str

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones, in order; クヮ and グヮ have three, because no voice knows kw and gw."""
        if self.consonant is None:
            return (self.vowel,)
        return (*_PARTS.get(self.consonant, (self.consonant,)), self.vowel)


SOUNDS: Mapping[str, MoraSound] = MappingProxyType(
    {"ン": MoraSound(None, "N"), "ッ": MoraSound(None, "q")}
    | {
        kana: MoraSound(consonant or None, vowel)
        for consonant, row in _ROWS
        for vowel, kana in zip(_VOWELS, row.split(), strict=True)
        if kana != _NONE
    }
)
"""The sound of each mora, by its katakana."""

KANA: Mapping[MoraSound, str] = MappingProxyType({sound: kana for kana, sound in SOUNDS.items()})
"""The katakana of each sound."""

SPEAKABLE_VOWELS = frozenset(_VOWELS)


def split_morae(kana: str) -> list[str]:
    """Split katakana into morae; `ー` or a sign stays a piece of its own.

    >>> split_morae("キャット")
    ['キャ', 'ッ', 'ト']
    """
    morae = []
    position = 0
    while position < len(kana):
        longest = kana[position : position + _LONGEST_MORA]
        mora = longest if longest in SOUNDS else kana[position]
        morae.append(mora)
        position += len(mora)
    return morae


LOW, HIGH = 0, 1

_LABEL = re.compile(
    r"-(?P<phone>[^+]+)\+.*?"
    r"/A:(?P<accent>xx|-?\d+)\+(?P<forward>xx|\d+)\+(?P<backward>xx|\d+)"
    r".*/F:(?P<morae>xx|\d+)_"
)
_NOWHERE = -50  # what no position in a phrase is
_SILENCES = frozenset({"sil", "pau"})
_CLOSURE = "cl"
ENDS_OF_MORAE = frozenset({*"aiueoAIUEONq", _CLOSURE})
"""The phones that end a mora: vowels, the moraic nasal and a closure."""

_DEVOICED = frozenset("AIUEO")


class ToneOfPhone(NamedTuple):
    phone: str
    tone: int


class _Label(NamedTuple):
    """A phone: how far its mora is from the accent and both ends, and the morae of its phrase."""

    phone: str
    accent: int
    forward: int
    backward: int
    morae: int


def tones_of_phones(labels: Sequence[str]) -> list[ToneOfPhone]:
    """Find the tones of all phones of a text, low or high, without its pauses."""
    parsed, tones = [], []
    for label in labels:
        found = _LABEL.search(label)
        if found is None:
            raise ValueError(f"expected a full-context label, found {label!r}")
        phone, *places = found.groups()
        parsed.append(_Label(phone, *(_NOWHERE if each == "xx" else int(each) for each in places)))
    for phrase in _phrases(parsed):
        lowest = min((tone for _, tone in phrase), default=0)
        tones += [ToneOfPhone(phone, min(max(tone - lowest, LOW), HIGH)) for phone, tone in phrase]
    return tones


def _phrases(labels: Sequence[_Label]) -> Iterator[list[ToneOfPhone]]:
    """Yield the phones of each accent phrase, with tones that begin at 0 and go up and down."""
    phrase: list[ToneOfPhone] = []
    tone = 0
    for label, following in zip_longest(labels, labels[1:]):
        if label.phone in _SILENCES:
            yield phrase
            phrase, tone = [], 0
            continue
        plain = label.phone.lower() if label.phone in _DEVOICED else label.phone
        phrase.append(ToneOfPhone("q" if plain == _CLOSURE else plain, tone))
        if following is None:
            break
        if label.backward == 1 and following.forward == 1 and label.phone in ENDS_OF_MORAE:
            yield phrase
            phrase, tone = [], 0
        elif (
            label.accent == 0
            and following.forward == label.forward + 1
            and label.forward != label.morae
        ):
            tone -= 1
        elif (label.forward, following.forward) == (1, 2):
            tone += 1
    yield phrase


_NO_READING = "、"
_SIGNS = frozenset(PUNCTUATION)
_SILENT = _SIGNS | {PAD}
_WIDE_SIGNS: Mapping[str, str] = MappingProxyType({"？": "?", "！": "!"})
_LENGTHENED = SPEAKABLE_VOWELS | {"N"}


@dataclass(frozen=True)
class SpokenWord:
    text: str
    reading: str


@dataclass(frozen=True)
class Phonemes:
    """The P phones and tones of a text, and how many belong to each of its C characters."""

    words: tuple[SpokenWord, ...]
    phones: tuple[str, ...]
    tones: tuple[int, ...]
    word2ph: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(word.text for word in self.words)

    @property
    def has_sound(self) -> bool:
        return not set(self.phones) <= _SILENT


def phonemes(reading: Reading) -> Phonemes:
    """Turn a normalised text into phones. Unclear readings are never refused."""
    words = spoken_words(reading)
    phones: list[list[str]] = []
    for word in words:
        before = phones[-1][-1] if phones and phones[-1] else ""
        phones.append(_pronounce(word.reading, before))
    flat = [phone for word_phones in phones for phone in word_phones]
    known = tones_of_phones(reading.labels)
    tones = matching_tones(flat, known) or nearest_tones(flat, known)
    word2ph = [
        count
        for word, word_phones in zip(words, phones, strict=True)
        for count in deal(len(word_phones), len(word.text))
    ]
    return Phonemes(words, (PAD, *flat, PAD), (LOW, *tones, LOW), (1, *word2ph, 1))


def spoken_words(reading: Reading) -> tuple[SpokenWord, ...]:
    words = []
    for word in reading.words:
        known = normalise_signs(word.text)
        if word.reading == _NO_READING:
            spoken = known if set(known) <= _SIGNS else UNREADABLE * len(known)
            words.append(SpokenWord(known, spoken))
            continue
        # Phones need a character that they belong to: ％ and ０ are read, though no voice has them.
        text = known if len(known) >= len(word.text) else word.text
        spoken = "".join(_WIDE_SIGNS.get(sign, sign) for sign in word.reading)
        words.append(SpokenWord(text, spoken))
    return tuple(words)


def _pronounce(reading: str, before: str) -> list[str]:
    if set(reading) <= _SIGNS:
        return list(reading)
    phones: list[str] = []
    for mora in split_morae(reading):
        if mora == LONG and not phones:
            phones.append(before if before in _LENGTHENED else "-")
        elif mora == LONG:
            phones.append(phones[-1])
        elif mora in SOUNDS:
            phones += SOUNDS[mora].phones
        else:
            phones.append(mora if mora in _SIGNS else UNREADABLE)
    return phones


def matching_tones(phones: Sequence[str], known: Sequence[ToneOfPhone]) -> list[int]:
    tones = []
    position = 0
    for phone in phones:
        if position < len(known) and phone == known[position].phone:
            tones.append(known[position].tone)
            position += 1
        elif position == len(known) or phone in _SIGNS:
            tones.append(LOW)
        else:
            return []
    return tones


def nearest_tones(phones: Sequence[str], known: Sequence[ToneOfPhone]) -> list[int]:
    """Align phones that differ: each has the tone of its equal, or of the phone before it."""
    matcher = SequenceMatcher(None, phones, [tone.phone for tone in known], autojunk=False)
    equal = {
        block.a + offset: known[block.b + offset].tone
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    tones: list[int] = []
    tone = LOW
    for index, phone in enumerate(phones):
        tone = equal.get(index, tone)
        tones.append(LOW if phone in _SIGNS else tone)
    return tones


def deal(phones: int, characters: int) -> list[int]:
    """Deal phones to characters: as many to each, and one more to the first."""
    if characters == 0:
        return []
    each, more = divmod(phones, characters)
    return [each + 1] * more + [each] * (characters - more)
