"""The spoken form of Spanish and Italian: one list of rules, and a table for each language."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from shared.speech.text.latin_form import (
    ADDRESS,
    LAST_RULES,
    Replacement,
    Rules,
    address,
    compile_rules,
    write_by_rules,
)
from shared.speech.text.spoken_form import is_day, read_pairs

_MOST_DIGITS, _LAST_HOUR, _LAST_MINUTE, _NOON = 15, 24, 59, 12
_LARGEST_DENOMINATOR = 10
_NUMBER: Final = (  # thousands as in English, thousands with dots, and decimals with either sign
    r"(?<!\d)(?>\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}(?!\d)"
    r"|\d{1,3}(?:\.\d{3})+(?!\d)(?:,\d+)?|\d+(?:[.,]\d+)?)"
)
_ENGLISH_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}")
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_CODES: Final = read_pairs("US$ $  USD $  EUR €  GBP £  JPY ¥  CHF ₣")
_ANY_CODE, _ANY_CURRENCY = r"US\$|\b(?:USD|EUR|GBP|JPY|CHF)\b", "[$€£¥₩₹₣]"
_ROMAN: Final = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"
_ROMAN_VALUES: Final = {"I": 1, "V": 5, "X": 10}
_ACRONYM = re.compile(
    r"(?<!\w)[A-ZÑ]{2,5}(?!\w)|(?<![\w'])[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz](?![\w'])"
)
_PRONOUNCEABLE = re.compile(r"[^AEIOU]?(?:[AEIOU]{1,2}[^AEIOU]{1,2})*[AEIOU]{1,2}[NSLRDZT]?")


@dataclass(frozen=True)
class Scale:
    """A power of a thousand, and its names for one and for more, with the space before them."""

    value: int
    one: str
    many: str


@dataclass(frozen=True, eq=False)
class RomanceForm:
    """Writes texts of one language in words.

    `agree` gives a numeral the form that it has before a noun, and `further_ordinal` writes those
    after the listed ones. Of patterns, `before_clock` is what stands before times with a dot,
    `numbered` before numbers that count nothing, `after_roman` after Roman ones, `telephone` a
    number without spaces, and `scales_of_amounts` a word such as millions.
    """

    under_hundred: Sequence[str]
    hundreds: Sequence[str]
    scales: Sequence[Scale]
    agree: Callable[[str, str], str]
    plural: Callable[[str], str]
    ordinals: Sequence[str]
    further_ordinal: Callable[[str], str]
    parts: Sequence[str]
    months: Sequence[str]
    words: Mapping[str, str]
    currencies: Mapping[str, str]
    units: Mapping[str, str]
    signs: Mapping[str, str]
    abbreviations: Mapping[str, str]
    letters: Mapping[str, str]
    before_clock: str
    numbered: str
    after_roman: str
    telephone: str
    scales_of_amounts: str
    further: Sequence[tuple[str, Replacement]]

    def write_out(self, text: str) -> str:
        """Write a text in words and `. , ! ? ' " -`; it may be empty."""
        number = self.words["number"]
        written = write_by_rules(text, self._rules, self.power, self.mixed_fraction, number)
        is_shouted = written.isupper() and " " in written
        return written if is_shouted else _ACRONYM.sub(self.spelled, written)

    def cardinal(self, number: int) -> str:
        """Write a number that is not negative in words; one without a name digit by digit."""
        if len(str(number)) > _MOST_DIGITS:
            return self.digits(str(number))
        for scale in self.scales:
            count, rest = divmod(number, scale.value)
            if count:
                said = self.agree(self.cardinal(count), "") + scale.many
                said = scale.one if count == 1 else said
                return f"{said} {self.cardinal(rest)}" if rest else said
        hundred, rest = divmod(number, 100)
        if not hundred:
            return self.under_hundred[rest]
        if not rest:
            return self.words.get(str(number), self.hundreds[hundred])
        return f"{self.hundreds[hundred]} {self.under_hundred[rest]}"

    def digits(self, text: str) -> str:
        return " ".join(self.under_hundred[int(digit)] for digit in text)

    def ordinal(self, number: int, ending: str = "o") -> str:
        listed = 1 <= number <= len(self.ordinals)
        said = self.ordinals[number - 1] if listed else self.further_ordinal(self.cardinal(number))
        return said[:-1] + ending if said.endswith("o") else said

    def number(self, text: str) -> str:
        if _ENGLISH_THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        elif _THOUSANDS.fullmatch(text):
            text = text.replace(".", "")
        whole, sign, decimals = re.split(r"([.,]|$)", text, maxsplit=1)
        if len(whole) > 1 and whole[0] == "0" and not sign:
            return self.digits(whole)
        said = self.cardinal(int(whole))
        if not sign:
            return said
        is_short = len(decimals) <= 2 and decimals[0] != "0"  # noqa: PLR2004 - as amounts have
        rest = self.cardinal(int(decimals)) if is_short else self.digits(decimals)
        return f"{said} {self.words['comma' if sign == ',' else 'point']} {rest}"

    def counted(self, number: str, noun: str) -> str:
        said = self.number(number)
        return f"{self.agree(said, noun)} {noun if number == '1' else self.plural(noun)}"

    def amount(self, sign: str, number: str, scale: str | None = None) -> str:
        noun, _, cent = self.currencies[sign].partition("/")
        if scale:
            said = self.agree(self.number(number), scale)
            return f"{said} {scale} {self.words['of']} {self.plural(noun)}"
        whole, decimals = number[:-3], number[-2:]
        if not cent or not re.fullmatch(r"\d[\d.]*[.,]\d\d", number):
            return self.counted(number, noun)
        cents = self.counted(str(int(decimals)), cent) if int(decimals) else ""
        if not int(whole.replace(".", "")):
            return cents or self.counted("0", noun)
        return self.counted(whole, noun) + (f" {self.words['cents']} {cents}" if cents else "")

    def quantity(self, found: re.Match[str]) -> str:
        if found[2] in ("G", "S", "H", "M", "T"):
            return found[0]
        return self.counted(found[1], self.units[found[2].lower()])

    def day(self, day: int, month: int, year: str = "") -> str:
        of = self.words["date"]
        first = self.words.get("first", "")
        said = first if day == 1 and first else self.cardinal(day)
        if len(year) == 2:  # noqa: PLR2004 - as in 27/11/26
            year = ("20" if int(year) < 50 else "19") + year  # noqa: PLR2004 - likely years
        return f"{said}{of}{self.months[month - 1]}" + (
            f"{of}{self.cardinal(int(year))}" if year else ""
        )

    def full_date(self, found: re.Match[str]) -> str:
        day, month = int(found[1]), int(found[3])
        return self.day(day, month, found[4]) if is_day(month, day) else found[0]

    def iso_date(self, found: re.Match[str]) -> str:
        month, day = int(found[2]), int(found[3])
        if not is_day(month, day):
            return found[0]
        return self.day(day, month, found[1]) + (f", {found[4]}" if found[4] else "")

    def slashed(self, found: re.Match[str]) -> str:
        """Read `1/2` as a fraction and `27/11` as a day, as far as one can tell."""
        first, second = int(found[1]), int(found[2])
        if 0 < first < second <= _LARGEST_DENOMINATOR:
            part = self.parts[second]
            return f"{self.agree(self.cardinal(first), part)} " + (
                part if first == 1 else self.plural(part)
            )
        if is_day(second, first):
            return self.day(first, second)
        return f"{self.cardinal(first)} {self.cardinal(second)}"

    def clock(self, found: re.Match[str]) -> str:
        hour, minute = int(found["hour"]), int(found["minute"] or 0)
        if hour > _LAST_HOUR or minute > _LAST_MINUTE:
            return found[0]
        said = self.agree(self.cardinal(hour), self.units["h"])
        if minute:
            said += f" {self.words['and']} {self.cardinal(minute)}"
        if found["half"]:
            is_evening = found["half"] in "pP" and hour % _NOON >= 8  # noqa: PLR2004 - by usage
            said += " " + self.words["evening" if is_evening else found["half"].lower() + "m"]
        elif found["unit"] and not minute:
            said += " " + (self.units["h"] if hour == 1 else self.plural(self.units["h"]))
        return said

    def power(self, exponent: str) -> str:
        if exponent in ("2", "3"):
            return " " + self.words["squared" if exponent == "2" else "cubed"]
        minus = self.words["minus"] + " " if exponent.startswith("-") else ""
        return f" {self.words['power']} {minus}{exponent.lstrip('+-')}"

    def mixed_fraction(self, whole: str, above: str, below: str) -> str:
        if (above, below) == ("1", "2") and whole:
            return f"{whole} {self.words['and']} {self.parts[2]}"
        return (f"{whole} {self.words['and']} " if whole else "") + f"{above}/{below}"

    def roman(self, found: re.Match[str]) -> str:
        values = [_ROMAN_VALUES[each] for each in found["roman"]]
        following = [*values[1:], 0]
        number = sum(
            -value if value < after else value
            for value, after in zip(values, following, strict=True)
        )
        before, after = found["before"] or "", found["after"] or ""
        ending = "a" if (before or after).endswith(("a", "bel", "ón")) else "o"
        if after:
            return f"{self.ordinal(number, ending)} {after}"
        is_name = before[:1].isupper() and number <= int(self.words["names"])
        return f"{before} {self.ordinal(number, ending) if is_name else self.cardinal(number)}"

    def spelled(self, found: re.Match[str]) -> str:
        word = found[0].upper()
        if len(word) > 2 and _PRONOUNCEABLE.fullmatch(word):  # noqa: PLR2004 - as ONU and NATO
            return found[0]
        return " ".join(self.letters[letter] for letter in word)

    @cached_property
    def _rules(self) -> Rules:
        return compile_rules(self._spoken())

    def _spoken(self) -> Iterable[tuple[str, Replacement]]:
        words = self.words
        minus, to, of = f" {words['minus']} ", f" {words['to']} ", words["date"]
        names = [words[name] for name in ("dot", "at", "slash", "dash")]
        short = "|".join(month[:3] for month in self.months)
        number = f"({_NUMBER})"
        scale = rf"(?:\s({self.scales_of_amounts})\b(?: {words['of']})?)?"
        dot = r"\b(?:\.(?!\s*$|\s[A-Z]))?"
        half = rf"(?:\s?(?P<half>[aApP])\.?\s?[mM]{dot})"
        unit = rf"(?:\s?(?P<unit>h|hrs?|horas|ore){dot})"
        return (
            (ADDRESS, lambda found: address(found[0], *names)),
            *self.further,
            (rf"(?<!\w)(?:{_any(self.abbreviations)})(?!\w)",
             lambda found: self.abbreviations[found[0]]),
            (r"(?<=\d) (?=(?:\d{3} )?000(?!\d))", ""),
            ((r"\b(\d{4})-(\d{1,2})-(\d{1,2})"
             r"(?:T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), self.iso_date),
            (r"(?<![\d/.-])(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d\d)(?![\d/-]|\.\d)", self.full_date),
            (rf"(?i)(?<!\d)1(?:°|[ºo]\b)?{of}(?=(?:{'|'.join(self.months)})\b)",
             f"{words.get('first', '1')}{of}"),
            (rf"(?i)(?<=\d )(?:{of.strip()} )?({short})\b\.?",
             lambda found: of.lstrip()
             + next(month for month in self.months if month[:3] == found[1].lower())),
            (rf"({_ANY_CODE})\s?(?={_NUMBER})|(?<=\d)\s?({_ANY_CODE})",
             lambda found: _CODES[found[1] or found[2]]),
            (rf"({_ANY_CURRENCY})\s?{number}\s?[-–]\s?\1?(?=\d)", rf"\2{to}\1"),
            (rf"(?<![\w)])[-–−](?={_ANY_CURRENCY}|[.,]?\d)|(?<=[=(+])\s?-(?=[a-z]\b)", minus),
            (rf"({_ANY_CURRENCY})\s?{number}{scale}",
             lambda found: f" {self.amount(found[1], found[2], found[3])} "),
            (rf"{number}{scale}\s?({_ANY_CURRENCY})",
             lambda found: f" {self.amount(found[3], found[1], found[2])} "),
            ((r"(?<![\w.,])(?:\+|00)\d{1,3}(?:[ .-]?\d{2,4}){2,5}\b"
             r"|(?<![\w.,-])\d{2,4}(?:[ -]\d{2,4}){2,4}\b(?![.,]\d)"
             rf"|\b(?:{self.telephone})\b"),
             lambda found: ", ".join(map(self.digits, re.findall(r"\d+", found[0])))),
            (r"(?<=\d:\d\d)\s?[-–~]\s?(?=\d{1,2}:\d\d)", to),
            (rf"(?<![\d:])(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::\d\d)?(?![\d:]){unit}?{half}?",
             self.clock),
            (rf"(?<![\d.,])(?P<hour>\d{{1,2}})(?P<minute>)(?P<unit>){half}", self.clock),
            ((rf"(?i)\b(?P<before>(?:{self.before_clock}) )?(?P<hour>\d{{1,2}})[.](?P<minute>\d\d)"
              rf"(?![\d.,])(?P<half>)(?(before)|{unit})"),
             lambda found: (found["before"] or "") + self.clock(found)),
            (r"(?<=\d)\s?:\s?(?=\d)|(?<=\w)\s?~\s?(?=\w)", to),
            (r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?![.\d])|(?<!\d)\d+(?:\.\d{1,2}){2,}\b",
             lambda found: f" {words['point']} ".join(map(self.number, found[0].split(".")))),
            (r"(?<!\w)(\d+)\.?([oa])\b(?!')", lambda found: self.ordinal(int(found[1]), found[2])),
            (r"(?<![\w.,-])(\d|10)°(?=\s[a-z]{4})", lambda found: self.ordinal(int(found[1]))),
            (r"(?<![\w./])(\d+) (?=[1-9]/[2-9]\b)", rf"\1 {words['and']} "),
            (r"(?<![\w.])(\d{1,3})/(\d{1,3})(?![\w/])", self.slashed),
            (r"(?<=[\w)])\^(-?\w+)", lambda found: self.power(found[1])),
            (r"(?<=[\w)])\s−\s(?=[\w(])|(?<=\d)\s?[-−]\s?(?=\d+(?:[.,]\d+)?\s?=)", minus),
            ("−", "-"),
            (r"(?<=\d)\s?[-–]\s?(?=\d)", to),
            (r"(?<=\d)\s?°\s?([CF])\b", lambda found: f"°{found[1].lower()}"),
            (rf"(?<![A-Za-z]){number}\s?((?i:{_any(self.units)}))(?!['\w])", self.quantity),
            ((rf"\b(?:(?P<before>(?i:{self.numbered})|[A-Z]\w*[a-zñ]) )?(?P<roman>{_ROMAN})"
              rf"(?![\w'])(?(before)| (?P<after>{self.after_roman})\b)"), self.roman),
            (r"(?<=[A-Za-z])(?=\d)", " "),
            (r"(?<=\d)\s?[x×]\s?(?=\d)", f" {words['by']} "),
            (r"(?<![\d.])[.,](\d+)\b", lambda found: f" {words['comma']} {self.digits(found[1])} "),
            (rf"{number}(?: (?=(?P<noun>[a-zñáéíóú]{{3,}})\b))?", self.before_noun),
            (f"[{re.escape(''.join(self.signs))}]", lambda found: f" {self.signs[found[0]]} "),
            (r"#(?=\w)", f"{words['hash']} "),
            *LAST_RULES,
        )  # fmt: skip

    def before_noun(self, found: re.Match[str]) -> str:
        """Let a number agree with the word after it, if that is likely to be a noun."""
        number, noun = found[1], found["noun"] or ""
        said = self.number(number)
        is_year = number.isdecimal() and 1900 <= int(number[:9]) < 2100  # noqa: PLR2004
        before = found.string[: found.start()][-20:]
        counts = (number == "1" or noun.endswith("s")) and not self._numbered.search(before)
        if noun and counts and not is_year and noun not in self.words["others"].split():
            said = self.agree(said, noun)
        return f" {said} "

    @cached_property
    def _numbered(self) -> re.Pattern[str]:
        return re.compile(rf"(?i)\b(?:{self.numbered}) $")


def _any(names: Mapping[str, str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))
