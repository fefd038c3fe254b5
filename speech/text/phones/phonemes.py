"""From text to the phones, tones and alignment that voices of Style-Bert-VITS2 (JP-Extra) take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType

from speech.text.normalisation import normalise_signs
from speech.text.phones.morae import LONG, SOUNDS, SPEAKABLE_VOWELS, split_morae
from speech.text.phones.symbols import PAD, PUNCTUATION, UNREADABLE
from speech.text.phones.tones import LOW, ToneOfPhone, tones_of_phones
from speech.text.reading import Reading

_NO_READING = "、"
_SIGNS = frozenset(PUNCTUATION)
_SILENT = _SIGNS | {PAD}
_WIDE_SIGNS: Mapping[str, str] = MappingProxyType({"？": "?", "！": "!"})
_LENGTHENED = SPEAKABLE_VOWELS | {"N"}


@dataclass(frozen=True)
class SpokenWord:
    """One word as a voice says it: how it is written, and its reading in katakana or signs."""

    text: str
    reading: str


@dataclass(frozen=True)
class Phonemes:
    """A text as its phones; P phones and C characters, the padding at both ends included.

    Attributes:
        words: the words of the text.
        phones: P symbols (see speech.text.phones.symbols).
        tones: P tones, 0 for low and 1 for high; 0 for signs.
        word2ph: how many phones each character has, C numbers that sum up to P.
    """

    words: tuple[SpokenWord, ...]
    phones: tuple[str, ...]
    tones: tuple[int, ...]
    word2ph: tuple[int, ...]

    @property
    def text(self) -> str:
        """The text whose characters the alignment counts, C - 2 of them."""
        return "".join(word.text for word in self.words)

    @property
    def has_sound(self) -> bool:
        """Whether there is anything to hear, and not signs alone."""
        return not set(self.phones) <= _SILENT


def phonemes(reading: Reading) -> Phonemes:
    """Turn a normalised text, as it is read, into phones.

    What a reading and its labels disagree about, and what nobody can read, is spoken as well as can
    be; no text that was normalised (see speech.text.normalisation) is refused.
    """
    words = spoken_words(reading)
    phones = _pronounce([word.reading for word in words])
    tones = _align_tones([phone for word in phones for phone in word], reading.labels)
    word2ph = [
        count
        for word, word_phones in zip(words, phones, strict=True)
        for count in _deal(len(word_phones), len(word.text))
    ]
    return Phonemes(
        words,
        (PAD, *(phone for word in phones for phone in word), PAD),
        (LOW, *tones, LOW),
        (1, *word2ph, 1),
    )


def spoken_words(reading: Reading) -> tuple[SpokenWord, ...]:
    """Find what is said for each word, also for signs and for what nobody can read."""
    return tuple(_spoken(word.text, word.reading) for word in reading.words)


def _spoken(text: str, reading: str) -> SpokenWord:
    known = normalise_signs(text)
    if reading == _NO_READING:
        return SpokenWord(known, known if set(known) <= _SIGNS else UNREADABLE * len(known))
    # Phones need a character that they belong to: ％ and ０ are read, though no voice knows them.
    text = known if len(known) >= len(text) else text
    return SpokenWord(text, "".join(_WIDE_SIGNS.get(sign, sign) for sign in reading))


def _pronounce(readings: Iterable[str]) -> list[list[str]]:
    """Find the phones of each word; long vowels at the start of a word prolong the word before."""
    phones: list[list[str]] = []
    for reading in readings:
        before = phones[-1][-1] if phones and phones[-1] else ""
        phones.append(_pronounce_word(reading, before))
    return phones


def _pronounce_word(reading: str, before: str) -> list[str]:
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


def _align_tones(phones: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Give the phones of the readings, signs among them, the tones of the labels' phones."""
    known = tones_of_phones(labels)
    tones = _matching_tones(phones, known)
    return _nearest_tones(phones, known) if tones is None else tones


def _matching_tones(phones: Sequence[str], known: Sequence[ToneOfPhone]) -> list[int] | None:
    """Align phones that are the same but for signs; None if they are not."""
    tones = []
    position = 0
    for phone in phones:
        if position < len(known) and phone == known[position].phone:
            tones.append(known[position].tone)
            position += 1
        elif position == len(known) or phone in _SIGNS:
            tones.append(LOW)
        else:
            return None
    return tones


def _nearest_tones(phones: Sequence[str], known: Sequence[ToneOfPhone]) -> list[int]:
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


def _deal(phones: int, characters: int) -> list[int]:
    """Deal phones to characters: as many to each, and one more to the first."""
    if characters == 0:
        return []
    each, more = divmod(phones, characters)
    return [each + 1] * more + [each] * (characters - more)
