"""The spoken form of texts in Latin letters: what English, Spanish and Italian share."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from shared.speech.text.spoken_form import read_pairs, separate_numbers

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]
Rules: TypeAlias = tuple[tuple[re.Pattern[str], Replacement], ...]

ADDRESS: Final = (
    r"(?i:https?://|www\.)[!-~]+[A-Za-z0-9/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.(?:com|org|net|edu|gov|io|dev|app|info|uk|jp|es|it|html?"
    r"|md|py|[jt]s|txt|pdf|exe|zip|json|csv|png|jpg|mp[34]|wav)\b(?:/[!-~]*[A-Za-z0-9/])?"
)
_LETTERS: Final = read_pairs("ß ss  Ł L  ł l  ø o  Ø O  æ ae  œ oe  đ d  ð d  þ th  ı i")
LAST_RULES: Final = (
    ("[" + "".join(_LETTERS) + "]", lambda found: _LETTERS[found[0]]),
    (r"(?<=\w)/(?=\w)", " "),
    ("[α-ωΑ-Ω]", lambda found: f" {unicodedata.name(found[0]).rpartition(' ')[2].lower()} "),
    (r"\s+-+\s+|--+|\s?[–—―]+\s?|[;:]+(?=\s|$)|[()\[\]{}]", ", "),
    (r"\.{2,}", "."),
)  # fmt: skip

_HIDDEN = re.compile("[™®©\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad]")
_MANY_DIGITS = re.compile(r"\d{1000}(?=\d)")  # Python converts at most 4,300 digits
_PLAIN = str.maketrans(
    dict(zip("‘’‛“”„«»‐‑‒~〜～、。\n\r\t", '\'\'\'"""""---~~~,.   ', strict=True))
)
_WRITTEN = re.compile(r"[^\w\s'.,!?\"-]|_")
_PAUSES = re.compile(r"[\s,]*,[\s,]*")
_BEFORE_END = re.compile(r"[\s,]+(?=[.!?])|^[\s,]+|(?<=[.!?]),")


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
    visible = _HIDDEN.sub("", text).replace("…", ". ").replace("№", f"{number_sign} ")
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
