"""The pronunciation of Romance languages in Kokoro-82M's symbols, by their rules of spelling."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

_WEAK = frozenset("iu")
_OPEN: Final = dict(zip("áéíóúàèìòù", "aeiouaɛiɔu", strict=True))
_BEFORE, _AFTER = {"i": "j", "u": "w"}, {"i": "ɪ", "u": "ʊ"}
_VOWELS = re.compile("[aeiouáéíóúàèìòùâêô]+")
_TOKENS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|[.,!?]")
_STRESS = "ˈ"


class RomancePhones:
    """Reads words of a language whose spelling tells their sounds; safe for threads.

    Its file's `spelling` puts accents where they are not written, `sounds` turns letters into
    symbols, and `allophones` changes symbols by those beside them. A word without an accent is
    stressed on its last vowel but one; on the last or the third to last if it matches one of
    `stressed`.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        steps = ("spelling", "sounds", "allophones")
        self._spelling, self._sounds, self._allophones = (
            read_rules(table["phones"][step]) for step in steps
        )
        letters = table["phones"].get("open", "").split()
        self._open = _OPEN | dict(zip(letters[::2], letters[1::2], strict=True))
        self._letters = frozenset(table["phones"]["letters"])
        self._weak = frozenset(table["phones"]["weak_words"].split())
        last, third = ("|".join(table["stressed"][each].split()) for each in ("last", "third"))
        self._last, self._third = re.compile(f"(?:{last})$"), re.compile(f"(?:{third})$")

    def symbols(self, text: str) -> str:
        """Write a sentence, spelled out in words and signs, in Kokoro's symbols."""
        written = ""
        for token in _TOKENS.findall(unicodedata.normalize("NFC", text).lower()):
            is_word = token[0].isalpha()
            written += f" {self._word(token.replace(chr(39), ''))}" if is_word else token
        return written.strip()

    def _word(self, word: str) -> str:
        plain = "".join(
            each if each in self._letters else unicodedata.normalize("NFD", each)[0]
            for each in word
        )
        plain = rewrite(plain, self._spelling)
        said = rewrite(plain, self._sounds)
        symbols, nuclei = syllables(said)
        accents = [place for place in nuclei if said[place] in self._open]
        place = 1 if self._last.search(plain) else 3 if self._third.search(plain) else 2
        stressed = accents[-1:] or nuclei[-min(place, len(nuclei)) :][:1]
        is_stressed = word not in self._weak
        written = "".join(
            _STRESS * (is_stressed and place in stressed) + self._open.get(symbol, symbol)
            for place, symbol in enumerate(symbols)
        )
        return rewrite(written, self._allophones)


def read_rules(table: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Read a table of patterns and what takes the place of what they match; `-` is nothing."""
    words = table.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple((re.compile(pattern), "" if new == "-" else new) for pattern, new in pairs)


def rewrite(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, instead in rules:
        text = pattern.sub(instead, text)
    return text


def syllables(letters: str) -> tuple[list[str], list[int]]:
    """Find the vowels that make syllables, and write the other ones as glides."""
    symbols, nuclei = list(letters), []
    for found in _VOWELS.finditer(letters):
        group = range(found.start(), found.end())
        strong = [place for place in group if letters[place] not in _WEAK] or [group[-1]]
        nuclei += strong
        for place in group:
            if place not in strong:
                glides = _BEFORE if place + 1 in strong else _AFTER
                symbols[place] = glides[letters[place]]
    return symbols, nuclei
