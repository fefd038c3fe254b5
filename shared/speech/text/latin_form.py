"""The spoken form of texts in Latin letters: what English and Romance languages share."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from shared.speech.text.spoken_form import lists_of, read_pairs, separate_numbers

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]
Rules: TypeAlias = tuple[tuple[re.Pattern[str], Replacement], ...]

ADDRESS: Final = (
    r"(?i:https?://|www\.)[!-~]+[A-Za-z0-9/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.(?:com|org|net|edu|gov|io|dev|app|info|uk|jp|es|it|html?"
    r"|md|py|[jt]s|txt|pdf|exe|zip|json|csv|png|jpg|mp[34]|wav)\b(?:/[!-~]*[A-Za-z0-9/])?"
)
ROMAN: Final = tuple(
    ten + one
    for ten in ("", "X", "XX", "XXX")
    for one in ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
)
"""The Roman number at its place, from 1 to 39."""

_LETTERS: Final = read_pairs("ß ss  Ł L  ł l  ø o  Ø O  æ ae  œ oe  đ d  ð d  þ th  ı i")
LAST_RULES: Final = (
    ("[" + "".join(_LETTERS) + "]", lambda found: _LETTERS[found[0]]),
    (r"(?<=\w)/(?=\w)", " "),
    ("[α-ωΑ-Ω]", lambda found: f" {unicodedata.name(found[0]).rpartition(' ')[2].lower()} "),
    (r"\s+-+\s+|--+|\s?[–—―]+\s?|[;:]+(?=\s|$)|[()\[\]{}]", ", "),
    (r"\.{2,}", "."),
)  # fmt: skip

_HIDDEN = re.compile("[™®©\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad]")
_NUMBER_SIGN = re.compile(r"№|(?<!\w)[nN]\.?º\.?\s?(?=\d)")
_MANY_DIGITS = re.compile(r"\d{1000}(?=\d)")  # Python converts at most 4,300 digits
_PLAIN = str.maketrans(
    dict(zip("‘’‛“”„«»‐‑‒~〜～、。\n\r\t", '\'\'\'"""""---~~~,.   ', strict=True))
)
_ENDING = re.compile(r"\((?:(\w*)\|)?(\w*)\)")
_MOST_DIGITS: Final = 15
_WRITTEN = re.compile(r"[^\w\s'.,!?\"-]|_")
_PAUSES = re.compile(r"[\s,]*,[\s,]*")
_BEFORE_END = re.compile(r"[\s,]+(?=[.!?])|^[\s,]+|(?<=[.!?]),")


def substitute(rules: Iterable[tuple[str, str]], text: str) -> str:
    for pattern, instead in rules:
        text = re.sub(pattern, instead, text)
    return text


def inflected(noun: str, *, plural: bool) -> str:
    """Write `euro(s)` or `metr(o|i)` for one, or for more."""
    return _ENDING.sub(lambda found: found[2] if plural else found[1] or "", noun)


class Numerals:
    """Writes numbers in the words of a language's file."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        lists, words = lists_of(table), table["words"]
        self._scales: Sequence[tuple[int, str, str]] = table["scales"]
        self._agreement: Sequence[tuple[str, str]] = table["agreement"]
        self._joins: Sequence[tuple[str, str]] = table.get("joins", ())
        self._hundred: str = words["hundred"]
        self._hundreds = lists["hundreds"]
        small, tens = lists["small"], lists["tens"]
        compounds = [f"{ten}{words['ten']}{one}" for ten in tens for one in small[:10]]
        rules = table["compounds"]
        self._under_hundred = [*small, *(substitute(rules, each) for each in compounds)]

    def cardinal(self, number: int) -> str:
        """Write a number that is not negative in words; one without a name digit by digit."""
        if len(str(number)) > _MOST_DIGITS:
            return self.digits(str(number))
        for zeros, one, many in self._scales:
            count, rest = divmod(number, 10**zeros)
            if count:
                said = one if count == 1 else self.before_scale(count) + many
                return self._joined(said, self.cardinal(rest)) if rest else said
        hundred, rest = divmod(number, 100)
        if not hundred:
            return self._under_hundred[rest]
        if number == 100:  # noqa: PLR2004 - Spanish has a word for it
            return self._hundred
        said = self._hundreds[hundred - 1]
        return self._joined(said, self._under_hundred[rest]) if rest else said

    def _joined(self, said: str, rest: str) -> str:
        return substitute(self._joins, f"{said} {rest}")

    def digits(self, text: str) -> str:
        return " ".join(self._under_hundred[int(digit)] for digit in text)

    def before_scale(self, number: int) -> str:
        return substitute(self._agreement, f"{self.cardinal(number)}|").replace("|", "")


def compile_rules(rules: Iterable[tuple[str, Replacement]]) -> Rules:
    return tuple((re.compile(pattern), replace) for pattern, replace in rules)


def write_by_rules(
    text: str,
    rules: Rules,
    power: Callable[[str], str],
    fraction: Callable[[str, str, str], str],
    number_sign: str,
) -> str:
    """Write a text in words and `. , ! ? ' " -`; it may be empty.

    The rules see a text after Unicode's compatibility, whose powers, fractions and numbers in
    circles are in words.
    """
    visible = _HIDDEN.sub("", text).replace("…", ". ")
    visible = _NUMBER_SIGN.sub(f"{number_sign} ", visible)
    visible = _MANY_DIGITS.sub(r"\g<0> ", visible)
    separate = separate_numbers(visible, power, fraction, ", ")
    spoken = unicodedata.normalize("NFKC", separate).translate(_PLAIN)
    for pattern, replace in rules:
        spoken = pattern.sub(replace, spoken)
    spoken = _PAUSES.sub(", ", _WRITTEN.sub(" ", spoken))
    return " ".join(_BEFORE_END.sub("", spoken).split())


def address(text: str, dot: str, at: str, slash: str, dash: str) -> str:
    """Read a mail or web address: `a.b@c.org` is a dot b at c dot org."""
    plain = re.sub(r"^(?:https?://)?(?:www\.)?", "", text, flags=re.IGNORECASE).rstrip("/.,")
    for sign, word in ((".", dot), ("@", at), ("/", slash), ("-", dash), ("_", " ")):
        plain = plain.replace(sign, f" {word} ")
    return re.sub(r"[^\w ]+", " ", plain)
