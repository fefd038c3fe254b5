"""The pronunciation of English words, in the symbols of Kokoro-82M.

Words or their stems are looked up in misaki's American lexicon, whose symbols Kokoro was trained
with. The others are made of two known words, spelled, or read by g2p-en's network.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.speech.text.spoken_form import lists_of, read_table

Entry = str | dict[str, str | None]  # the symbols of a word, or those of each part of speech

_PRIMARY, _SECONDARY = _STRESSES = ("ˈ", "ˌ")
_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐ")
_VOICELESS, _HISSING = frozenset("ptkfθ"), frozenset("szʃʒʧʤ")
_BEFORE_T = frozenset("pkfθʃsʧ")
_FLAPPED = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_FEWEST_OF_A_PART = 3
_LONGEST_ACRONYM = 5
_LONGEST_WORD = 40


_LISTS: Final = lists_of(read_table("en"))
_DETERMINERS, _BEFORE_VERBS, _PERFECT, _THIRD, _PAST, _PREDICATE = (
    frozenset(_LISTS[name])
    for name in ("determiners", "before_verbs", "perfect", "third", "past", "predicate")
)

_TOKENS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*'?|[.,!?]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SIGNS = frozenset(".,!?")


@dataclass(frozen=True, slots=True)
class Context:
    """The words around a word, in lower case, and whether a vowel follows; None before a sign."""

    before: Sequence[str] = ()
    after: Sequence[str] = ()
    vowel_follows: bool | None = None

    @property
    def previous(self) -> str:
        return self.before[-1] if self.before else ""


@dataclass(frozen=True, eq=False)
class Pronunciation:
    """Reads English words; safe for threads."""

    lexicon: Mapping[str, Entry]
    network: "GuessingNetwork"
    _guessed: dict[str, str] = field(default_factory=dict)

    def symbols(self, text: str) -> str:
        """Write a sentence, spelled out in words and signs, in Kokoro's symbols."""
        tokens = _TOKENS.findall(text)
        words = [token.lower() for token in tokens]
        written = ""
        follows: bool | None = None
        for place in range(len(tokens) - 1, -1, -1):
            token = tokens[place]
            if token in _SIGNS:
                written = token + written
                follows = None
                continue
            said = self._word(
                token, Context(tuple(words[:place]), tuple(words[place + 1 :]), follows)
            )
            written = f" {said}{written}" if said else written
            follows = next((each in _VOWELS for each in said if each not in _STRESSES), follows)
        return written.replace("ɾ", "T").replace("ʔ", "t").strip()

    def _word(self, word: str, context: Context) -> str:
        lower = word.lower()
        if (special := by_what_follows(word, context)) is not None:
            return special
        said = self._known(word, context) or self._known(lower, context)
        if said is None:
            if word not in self._guessed:
                if len(self._guessed) >= _MOST_REMEMBERED:
                    self._guessed.clear()
                self._guessed[word] = self._guess(word)
            return self._guessed[word]
        if word == lower or _PRIMARY in said or _SECONDARY in said:
            return said
        vowel = next((place for place, each in enumerate(said) if each in _VOWELS), None)
        return said if vowel is None else said[:vowel] + _SECONDARY + said[vowel:]

    def _known(self, word: str, context: Context) -> str | None:
        return self._look_up(word, context) or self._stem(word, context)

    def _look_up(self, word: str, context: Context) -> str | None:
        entry = _ADDED.get(word) or self.lexicon.get(word)
        if not isinstance(entry, dict):
            return entry
        if context.vowel_follows is None and "None" in entry:
            return entry["None"]
        return entry.get(part_of_speech(word, entry, context), entry["DEFAULT"])

    def _stem(self, word: str, context: Context) -> str | None:
        endings = (
            *(("s", "", with_s), ("'s", "", with_s), ("es", "", with_s), ("ies", "y", with_s)),
            *(("s'", "s", str), ("'", "", str), ("d", "", with_ed), ("ed", "", with_ed)),
            *(("ing", "", with_ing), ("ing", "e", with_ing), ("in'", "ing", str)),
        )
        for ending, instead, change in endings:
            stem = word.removesuffix(ending) + instead
            if not word.endswith(ending) or len(stem) < 2 or stem.endswith("ss") and ending == "s":  # noqa: PLR2004, RUF021
                continue
            for each in (stem, stem[:-1] if stem[-2:-1] == stem[-1:] else stem):
                inflected = Context(("to",)) if change in (with_ed, with_ing) else context
                if each in self.lexicon and (said := self._look_up(each, inflected)):
                    return change(said)
        return None

    def _guess(self, word: str) -> str:
        if word.endswith("'s") and not word.endswith("'s's"):
            return with_s(self._word(word[:-2], Context()))
        plain = "".join(
            each for each in unicodedata.normalize("NFD", word) if each.isascii() and each.isalpha()
        )
        if plain != word and plain:
            return self._word(plain, Context())
        parts = _PARTS.findall(plain)
        if len(parts) > 1:
            first, *others = (
                spelled(part, self.lexicon) if part.isupper() else self._word(part, Context())
                for part in parts
            )
            return first + "".join(each.replace(_PRIMARY, _SECONDARY) for each in others)
        lower = plain.lower()
        is_acronym = plain.isupper() and len(plain) <= _LONGEST_ACRONYM
        if is_acronym or not _LETTERS_OF_VOWELS & set(lower) or len(plain) > _LONGEST_WORD:
            return spelled(plain, self.lexicon)
        return self._compound(lower) or self.network.read(lower)

    def _compound(self, word: str) -> str | None:
        for middle in sorted(
            range(_FEWEST_OF_A_PART, len(word) - _FEWEST_OF_A_PART + 1),
            key=lambda place: abs(2 * place - len(word)),
        ):
            first = self._look_up(word[:middle], Context())
            second = self._known(word[middle:], Context())
            if first and second:
                return first + second.replace(_PRIMARY, _SECONDARY)
        return None


_ADDED: Final = {"cetera": "sˈɛɾəɹə", "kilobyte": "kˈɪləbˌIt", "miz": "mˈɪz", "wifi": "wˈIfˌI"}
"""Words that the lexicon lacks or has wrong."""

_MOST_REMEMBERED: Final = 4_096
_LETTERS_OF_VOWELS = frozenset("aeiouy")


def by_what_follows(word: str, context: Context) -> str | None:
    follows = context.vowel_follows
    lower = word.lower()
    if lower == "used":
        return "jˈust" if context.after[:1] == ("to",) else None
    if (lower == "i" and word != "I") or (word == "A" and context.before):
        return None
    said = _BY_WHAT_FOLLOWS.get(lower)
    return said and said[0 if follows is None else 1 + follows]


_BY_WHAT_FOLLOWS: Final = {
    "the": ("ðə", "ðə", "ði"),
    "a": ("ˈA", "ɐ", "ɐ"),
    "an": ("ɐn", "ɐn", "ɐn"),
    "to": ("tˈu", "tə", "tʊ"),
    "in": ("ˈɪn", "ɪn", "ɪn"),
    "am": ("æm", "ɐm", "ɐm"),
    "i": ("ˌI", "ˌI", "ˌI"),
}
"""Words before a sign, a consonant, and a vowel."""


def part_of_speech(word: str, entry: dict[str, str | None], context: Context) -> str:
    """Find the part of speech of a word that has several, by the words around it."""
    before, after = context.previous, context.after[0] if context.after else ""
    if "VBD" in entry:
        if before in _PERFECT:
            return "VBN"
        if before in _DETERMINERS:
            return "DEFAULT"
        is_past = before in _THIRD or bool(_PAST & {*context.before, *context.after})
        return "VBD" if is_past and before != "to" else "DEFAULT"
    if "ADJ" in entry and (before in _PREDICATE or after in ("to", "the") and word == "close"):  # noqa: RUF021
        return "ADJ"
    if before in _DETERMINERS:
        return "NOUN"
    is_command = not before and after in _DETERMINERS
    return "VERB" if before in _BEFORE_VERBS or is_command else "DEFAULT"


def with_s(stem: str) -> str:
    if stem[-1:] in _HISSING:
        return stem + "ᵻz"
    return stem + ("s" if stem[-1:] in _VOICELESS else "z")


def with_ed(stem: str) -> str:
    if stem[-1:] in _BEFORE_T:
        return stem + "t"
    if stem[-1:] == "t" and stem[-2:-1] in _FLAPPED:
        return stem[:-1] + "ɾᵻd"
    return stem + ("ᵻd" if stem[-1:] in ("d", "t") else "d")


def with_ing(stem: str) -> str:
    if stem[-1:] == "t" and stem[-2:-1] in _FLAPPED:
        return stem[:-1] + "ɾɪŋ"
    return stem + "ɪŋ"


def spelled(word: str, lexicon: Mapping[str, Entry]) -> str:
    letters = [
        str(lexicon.get(letter, "")).replace(_PRIMARY, _SECONDARY) for letter in word.upper()
    ]
    return "".join([*letters[:-1], letters[-1].replace(_SECONDARY, _PRIMARY)]) if letters else ""


_NAMES = """
    AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y
    Z ZH
"""
_SYMBOLS = "ɑ æ ʌ ɔ W I b ʧ d ð ɛ ɜɹ A f ɡ h ɪ i ʤ k l m n ŋ O Y p ɹ s ʃ t θ ʊ u v w j z ʒ"
_ARPABET: Final = dict(zip(_NAMES.split(), _SYMBOLS.split(), strict=True))
_STRESS: Final = {"1": _PRIMARY, "2": _SECONDARY}
_WEAK: Final = {"AH0": "ə", "ER0": "əɹ"}
_FIRST_LETTER, _END_OF_WORD, _UNKNOWN_LETTER = 3, 2, 1
_BEGIN, _END, _FIRST_PHONE = 2, 3, 4
_MOST_PHONES = 30
_PHONES: Final = tuple(
    name + stress
    for name in _NAMES.split()
    for stress in (("", *"012") if name == "UW" else "012" if name[0] in "AEIOU" else ("",))
)


@dataclass(frozen=True, eq=False)
class GuessingNetwork:
    """g2p-en's network, two gated recurrent units that read letters and write phones."""

    weights: Mapping[str, NDArray[np.float32]]

    def read(self, word: str) -> str:
        state = np.zeros(self.weights["enc_w_hh"].shape[1], np.float32)
        letters = [_FIRST_LETTER + ord(each) - ord("a") for each in word]
        for letter in (*letters, _END_OF_WORD):
            state = self._step("enc", letter, state)
        said, phone = "", _BEGIN
        for _ in range(_MOST_PHONES):
            state = self._step("dec", phone, state)
            phone = int((self.weights["fc_w"] @ state + self.weights["fc_b"]).argmax())
            if phone == _END:
                break
            if phone >= _FIRST_PHONE:
                name = _PHONES[phone - _FIRST_PHONE]
                plain = name.rstrip("012")
                stressed = _STRESS.get(name[len(plain) :], "") + _ARPABET[plain]
                said += _WEAK.get(name, stressed)
        return said

    def _step(self, part: str, number: int, state: NDArray[np.float32]) -> NDArray[np.float32]:
        weights = self.weights
        taken = weights[f"{part}_w_ih"] @ weights[f"{part}_emb"][number] + weights[f"{part}_b_ih"]
        kept = weights[f"{part}_w_hh"] @ state + weights[f"{part}_b_hh"]
        size = len(state)
        reset, update = np.split(1 / (1 + np.exp(-(taken + kept)[: 2 * size])), 2)
        new = np.tanh(taken[2 * size :] + reset * kept[2 * size :])
        changed: NDArray[np.float32] = (1 - update) * new + update * state
        return changed
