"""From morae to the symbols that Kokoro speaks Japanese from.

The network was trained on a romanisation in the International Phonetic Alphabet that has no accents
(misaki 0.7, Apache 2.0): words are parted by spaces, `ː` prolongs a vowel, `ʔ` holds a consonant.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from speech.text.phones.accents import AccentPhrase
from speech.text.phones.morae import LONG, SOUNDS, Sound, split_morae
from speech.text.phones.phonemes import spoken_words
from speech.text.reading import Reading
from speech.text.spoken import write_out

_NASAL, _HELD = "N", "q"
_PROLONGED = "ː"
_CONSONANTS: Mapping[str, str] = MappingProxyType(
    {consonant: consonant for consonant in "kstdnhbpmv"}
    | {consonant + "y": consonant + "ʲ" for consonant in "ktdbpm"}
    | {"g": "ɡ", "gy": "ɡʲ", "gw": "ɡᵝ", "kw": "kᵝ", "sh": "ɕ", "z": "ʣ", "j": "ʥ", "ch": "ʨ"}
    | {"ts": "ʦ", "ny": "ɲ", "hy": "ç", "f": "ɸ", "y": "j", "r": "ɾ", "ry": "ɾʲ", "w": "β"}
)
_BEFORE_I: Mapping[str, str] = MappingProxyType(
    {consonant: consonant + "ʲ" for consonant in "ktdbpmvɡɾɸʦ"} | {"n": "ɲ", "h": "ç", "ʣ": "z"}
)
_BEFORE_U: Mapping[str, str] = MappingProxyType({"ʣ": "z"})
_BACK_U = frozenset("kɡtdnhɸbpmjɾvβ")
_NASALS = (("mpb", "m"), ("kɡ", "ŋ"), ("ɲʨʥ", "ɲ"), ("ntdɾz", "n"))
_SIGNS: Mapping[str, str] = MappingProxyType(
    {"!": "!", "?": "?", "…": "…", ",": ",", ".": ".", "'": ",", "-": "—"}
)
_SILENT = frozenset((*_SIGNS.values(), " "))


class FrontEnd(Protocol):
    """Reads texts; see speech.text.front_end."""

    def read(self, text: str) -> Reading:
        """Find the words of a text and how they are read."""

    def write(self, text: str) -> str:
        """Write the English words of a text in katakana."""


def symbols_of_text(text: str, front_end: FrontEnd) -> str:
    """Write a text as Kokoro's symbols."""
    return symbols_of_words(front_end.read(front_end.write(write_out(text))))


def symbols_of_words(reading: Reading) -> str:
    """Write a text, as it is read, as Kokoro's symbols."""
    return _join(_pronounce(split_morae(word.reading)) for word in spoken_words(reading))


def symbols_of_phrases(phrases: Iterable[AccentPhrase]) -> str:
    """Write accent phrases as Kokoro's symbols; the accents themselves it has no symbols for."""
    return _join(_pronounce([mora.kana for mora in phrase.morae]) for phrase in phrases)


def has_sound(symbols: str) -> bool:
    """Whether there is anything to hear in Kokoro's symbols, and not signs alone."""
    return any(symbol not in _SILENT for symbol in symbols)


def _join(runs: Iterable[str]) -> str:
    joined = ""
    for run in runs:
        joined += f" {run}" if joined and run and run[0] not in _SILENT else run
    return joined


def _pronounce(morae: Sequence[str]) -> str:
    written = ""
    vowel = ""
    for place, mora in enumerate(morae):
        sound = SOUNDS.get(mora)
        if mora == LONG or (sound and sound == Sound(None, vowel) and vowel not in (_NASAL, _HELD)):
            written += _PROLONGED if vowel in tuple("aiueo") else ""
        elif sound is None:
            written += _SIGNS.get(mora, "")
            vowel = ""
        else:
            written += _write(
                sound, SOUNDS.get(morae[place + 1]) if place + 1 < len(morae) else None
            )
            vowel = sound.vowel
    return written


def _write(sound: Sound, following: Sound | None) -> str:
    if sound.vowel == _HELD:
        return "ʔ"
    if sound.vowel == _NASAL:
        return _nasal(following)
    consonant = _CONSONANTS[sound.consonant] if sound.consonant else ""
    if sound.vowel == "i":
        return _BEFORE_I.get(consonant, consonant) + "i"
    if sound.vowel == "u":
        is_back = not consonant or consonant in _BACK_U
        return _BEFORE_U.get(consonant, consonant) + ("ɯ" if is_back else "ɨ")
    return consonant + sound.vowel


def _nasal(following: Sound | None) -> str:
    if following and following.consonant:
        begins = _write(following, None)[0]
        for consonants, nasal in _NASALS:
            if begins in consonants:
                return nasal
    return "ɴ"
