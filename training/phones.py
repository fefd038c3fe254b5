"""Phones of the target voice, and what the phones of other languages become.

The target speaks the Japanese phones of Open JTalk. A phone that she does not
have becomes a `Blend` of two of hers: she speaks the sentence twice, and the
spectral envelopes are interpolated, so that for example an English schwa lies
between her /a/ and her /u/ instead of being either.
"""

import unicodedata
from dataclasses import dataclass

SILENCE = "sil"
PAUSE = "pau"
CLOSURE = "cl"
VOWELS = frozenset("aiueo")
DEVOICED = frozenset("AIUEO")
INVENTORY = (
    *(SILENCE, PAUSE, CLOSURE, "N", "a", "i", "u", "e", "o", "A", "I", "U", "E", "O"),
    *("k", "ky", "g", "gy", "s", "sh", "z", "j", "t", "ty", "ch", "ts", "d", "dy"),
    *("n", "ny", "h", "hy", "f", "b", "by", "p", "py", "m", "my", "y", "r", "ry", "w", "v"),
    *("kw", "gw"),
)
PHONE_INDEX = {name: index for index, name in enumerate(INVENTORY)}


@dataclass(frozen=True)
class Blend:
    """A phone of the target, or a mixture of two: `weight` is the share of `other`."""

    phone: str
    other: str
    weight: float = 0.0

    @classmethod
    def pure(cls, phone: str) -> "Blend":
        """One phone of hers alone."""
        return cls(phone, phone)


@dataclass(frozen=True)
class Segment:
    """One phone and the time in seconds at which it begins and ends."""

    blend: Blend
    start: float
    end: float


_BLENDS = {
    "ae": Blend("a", "e", 0.45),
    "eh": Blend("e", "a", 0.2),
    "ih": Blend("i", "e", 0.4),
    "uh": Blend("u", "o", 0.4),
    "ah": Blend("a", "o", 0.25),
    "ao": Blend("o", "a", 0.3),
    "ax": Blend("a", "u", 0.5),
    "er": Blend("u", "o", 0.5),
    "ui": Blend("i", "u", 0.5),
    "oe": Blend("e", "o", 0.5),
    "th": Blend("s", "f", 0.35),
    "dh": Blend("z", "d", 0.5),
    "vv": Blend("b", "f", 0.35),
    "ll": Blend("r", "u", 0.3),
    "rr": Blend("r", "w", 0.5),
    "uvular": Blend("g", "h", 0.5),
    "h_velar": Blend("h", "k", 0.25),
    "sh_hy": Blend("sh", "hy", 0.5),
}

ARPABET = {
    "aa": "a", "ae": "ae", "ah": "ah", "ao": "ao", "aw": "a uh", "ax": "ax", "axr": "er",
    "ay": "a ih", "eh": "eh", "er": "er", "ey": "e i", "ih": "ih", "iy": "i", "ow": "o uh",
    "oy": "o ih", "uh": "uh", "uw": "u", "b": "b", "ch": "ch", "d": "d", "dh": "dh", "dx": "r",
    "f": "f", "g": "g", "hh": "h", "hv": "h", "jh": "j", "k": "k", "l": "ll", "el": "ll",
    "m": "m", "em": "m", "n": "n", "en": "n", "nx": "n", "ng": "N", "p": "p", "r": "rr", "s": "s",
    "sh": "sh", "t": "t", "th": "th", "v": "vv", "w": "w", "y": "y", "z": "z", "zh": "j",
    "pau": "pau", "h#": "pau", "brth": "pau", "#": "pau",
}  # fmt: skip

ITALIAN = {
    "i": "i", "e": "e", "E": "eh", "a": "a", "o": "o", "O": "ao", "u": "u", "j": "y", "w": "w",
    "p": "p", "t": "t", "k": "k", "b": "b", "d": "d", "g": "g", "f": "f", "s": "s", "S": "sh",
    "v": "vv", "z": "z", "Z": "j", "ts": "ts", "tS": "ch", "dz": "z", "dZ": "j", "m": "m",
    "n": "n", "J": "ny", "ng": "N", "nf": "n", "l": "ll", "L": "ry", "r": "r", "#": "pau",
}  # fmt: skip

CZECH = {
    "a": "a", "b": "b", "c": "ts", "c~": "ch", "ch": "h_velar", "d": "d", "d~": "dy", "dz": "z",
    "dz~": "j", "e": "eh", "f": "f", "g": "g", "h": "h", "i": "i", "j": "y", "k": "k", "l": "ll",
    "m": "m", "n": "n", "n*": "N", "n~": "ny", "o": "o", "p": "p", "r": "r", "r~": "j",
    "r~*": "sh", "s": "s", "s~": "sh", "t": "t", "t~": "ty", "u": "u", "v": "vv", "z": "z",
    "z~": "j", "#": "pau", "_": "pau",
}  # fmt: skip

FINNISH = {
    "a": "a", "e": "e", "i": "i", "o": "o", "u": "u", "y": "ui", "@": "ae", "7": "oe", "&": "ax",
    "p": "p", "t": "t", "k": "k", "b": "b", "d": "d", "g": "g", "f": "f", "T": "th", "s": "s",
    "S": "sh", "h": "h", "v": "vv", "m": "m", "n": "n", "N": "N", "l": "ll", "L": "ry", "r": "r",
    "w": "w", "j": "y", "D": "dh", "z": "z", "Z": "j", "#": "pau", "##": "pau",
}  # fmt: skip

CATALAN = {
    "ax": "ax", "a": "a", "b": "b", "d": "d", "e": "e", "E": "eh", "f": "f", "g": "g", "i": "i",
    "j": "y", "J": "ny", "k": "k", "l": "ll", "L": "ry", "m": "m", "n": "n", "o": "o", "O": "ao",
    "p": "p", "r": "r", "rr": "r", "s": "s", "S": "sh", "t": "t", "u": "u", "w": "w", "z": "z",
    "Z": "j", "pau": "pau", "_": "pau", "#": "pau",
}  # fmt: skip

RUSSIAN = {
    "ii": "i", "yy": "ui", "uu": "u", "ee": "e", "oo": "o", "aa": "a", "a": "ah", "e": "ih",
    "i": "i", "y": "ui", "u": "u", "ae": "ax", "ay": "ih", "ur": "uh", "p": "p", "pp": "py",
    "b": "b", "bb": "by", "t": "t", "tt": "ty", "d": "d", "dd": "dy", "k": "k", "kk": "ky",
    "g": "g", "gg": "gy", "c": "ts", "ch": "ch", "f": "f", "ff": "f", "v": "vv", "vv": "vv",
    "s": "s", "ss": "s", "z": "z", "zz": "z", "sh": "sh", "sch": "sh", "zh": "j", "h": "h_velar",
    "hh": "hy", "m": "m", "mm": "my", "n": "n", "nn": "ny", "l": "ll", "ll": "ry", "r": "r",
    "rr": "ry", "j": "y", "pau": "pau",
}  # fmt: skip

_IPA = {
    "a": "a", "ä": "a", "ɐ": "ah", "ɑ": "a", "ʌ": "ah", "ɒ": "ao", "æ": "ae", "e": "e", "ɛ": "eh",
    "i": "i", "ɪ": "ih", "ɨ": "ui", "y": "ui", "ʏ": "ui", "ø": "oe", "œ": "oe", "ɵ": "oe",
    "o": "o", "ɔ": "ao", "u": "u", "ʊ": "uh", "ɯ": "u", "ɤ": "ax", "ə": "ax", "ɘ": "ax",
    "ɜ": "er", "ɚ": "er", "ɝ": "er", "ɞ": "oe", "ᵻ": "ih", "ʉ": "ui",
    "p": "p", "b": "b", "t": "t", "d": "d", "ʈ": "t", "ɖ": "d", "c": "ky", "ɟ": "gy", "k": "k",
    "ɡ": "g", "g": "g", "q": "k", "ɢ": "g", "m": "m", "ɱ": "m", "n": "n", "ɳ": "n", "ɲ": "ny",
    "ŋ": "N", "ɴ": "N", "r": "r", "ɾ": "r", "ɽ": "r", "ʀ": "uvular", "ʁ": "uvular", "ɹ": "rr",
    "ɻ": "rr", "ɸ": "f", "β": "b", "f": "f", "v": "vv", "ʋ": "vv", "θ": "th", "ð": "dh",
    "s": "s", "z": "z", "ʃ": "sh", "ʒ": "j", "ʂ": "sh", "ʐ": "j", "ɕ": "sh", "ʑ": "j",
    "ç": "hy", "ʝ": "y", "x": "h_velar", "ɣ": "g", "χ": "h_velar", "ħ": "h", "h": "h", "ɦ": "h",
    "l": "ll", "ɫ": "ll", "ɭ": "ll", "ʎ": "ry", "ɬ": "th", "j": "y", "ɥ": "y", "w": "w", "ʍ": "w",
    "ʔ": "cl",
}  # fmt: skip
_IPA_AFFRICATES = {
    "tʃ": "ch", "tɕ": "ch", "ʈʂ": "ch", "dʒ": "j", "dʑ": "j", "ɖʐ": "j", "ts": "ts", "dz": "z",
}  # fmt: skip
_PALATALISABLE = frozenset("k g t d n h b p m r".split())


def blends(names: str) -> list[Blend]:
    """Turns names such as ``"a ih"`` into blends; a plain phone is a pure blend."""
    return [_BLENDS.get(name) or Blend.pure(name) for name in names.split()]


def from_table(phone: str, table: dict[str, str]) -> list[Blend]:
    """Looks a phone of a festival phone set up, ignoring stress digits and length."""
    name = phone if phone in table else phone.rstrip("1:0")
    return blends(table.get(name, "ax"))


def from_ipa(symbol: str) -> list[Blend]:
    """Reads one IPA phoneme (diphthongs and affricates count as one).

    Raises:
        KeyError: the symbol is none that speech is expected to have.
    """
    names: list[str] = []
    rest = unicodedata.normalize("NFD", symbol)
    while rest:
        pair, char = rest[:2], rest[0]
        if pair in _IPA_AFFRICATES:
            names.append(_IPA_AFFRICATES[pair])
            rest = rest[2:]
            continue
        rest = rest[1:]
        if char == "ʲ":
            if names and names[-1] in _PALATALISABLE:
                names[-1] += "y"
            elif names and names[-1] == "ll":
                names[-1] = "ry"
        elif char == "\u0303" and names:
            names.append("N")
        elif char in _IPA:
            names.append(_IPA[char])
        elif char.isalpha() and unicodedata.category(char) != "Lm":
            raise KeyError(symbol)
    return blends(" ".join(names))
