"""The pronunciation of Spanish and Italian in the symbols of Kokoro-82M, by rules of spelling."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_VOWELS, _WEAK = frozenset("aeiouáéíóúàèìòù"), frozenset("iu")
_OPEN: Final = dict(zip("áéíóúàèìòù", "aeiouaɛiɔu", strict=True))
_BEFORE, _AFTER = {"i": "j", "u": "w"}, {"i": "ɪ", "u": "ʊ"}
_TOKENS = re.compile(r"[^\W\d_]+'?|[.,!?]")
_STRESS = "ˈ"


@dataclass(frozen=True, eq=False)
class RomancePhones:
    """Reads words of a language whose spelling tells their sounds.

    `spelling` puts accents where they are not written, `sounds` turns letters into symbols, and
    `allophones` changes symbols by those beside them. A word is stressed on its accent, or else
    before its last vowel, or on it if it matches `stressed_last`; `weak_words` have no stress.
    """

    spelling: Sequence[tuple[re.Pattern[str], str]]
    sounds: Sequence[tuple[re.Pattern[str], str]]
    allophones: Sequence[tuple[re.Pattern[str], str]]
    letters: str
    stressed_last: re.Pattern[str]
    weak_words: frozenset[str]

    def symbols(self, text: str) -> str:
        """Write a sentence, spelled out in words and signs, in Kokoro's symbols."""
        written, glued = "", True
        for token in _TOKENS.findall(unicodedata.normalize("NFC", text).lower()):
            if not token[0].isalpha():
                written += token
                continue
            is_elided = token.endswith("'")
            word = self._word(token.rstrip("'"), is_weak=is_elided)
            written += word if glued else f" {word}"
            glued = is_elided
        return written

    def _word(self, word: str, *, is_weak: bool) -> str:
        is_weak = is_weak or word in self.weak_words
        plain = "".join(
            each if each in self.letters else unicodedata.normalize("NFD", each)[0] for each in word
        )
        for pattern, instead in self.spelling:
            plain = pattern.sub(instead, plain)
        said = plain
        for pattern, instead in self.sounds:
            said = pattern.sub(instead, said)
        symbols, nuclei = syllables(said)
        accents = [place for place in nuclei if said[place] in _OPEN]
        if accents:
            stressed = accents[-1]
        else:
            is_last = len(nuclei) < 2 or self.stressed_last.search(plain)  # noqa: PLR2004
            stressed = nuclei[-1 if is_last else -2] if nuclei else -1
        written = "".join(
            _STRESS * (place == stressed and not is_weak) + _OPEN.get(symbol, symbol)
            for place, symbol in enumerate(symbols)
        )
        for pattern, instead in self.allophones:
            written = pattern.sub(instead, written)
        return written


def syllables(letters: str) -> tuple[list[str], list[int]]:
    """Find the vowels that make syllables, and write the other ones as glides."""
    symbols, nuclei = list(letters), []
    for found in re.finditer(f"[{''.join(_VOWELS)}]+", letters):
        group = range(found.start(), found.end())
        strong = [place for place in group if letters[place] not in _WEAK] or [group[-1]]
        nuclei += strong
        for place in group:
            if place not in strong:
                glides = _BEFORE if place + 1 in strong else _AFTER
                symbols[place] = glides[letters[place]]
    return symbols, nuclei


def compiled(table: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Read a table of patterns and what takes the place of what they match; `-` is nothing."""
    words = table.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple((re.compile(pattern), "" if new == "-" else new) for pattern, new in pairs)
