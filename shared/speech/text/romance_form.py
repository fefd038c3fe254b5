"""The spoken form of Romance languages: one list of rules, and a table of words for each."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from shared.speech.text.latin_form import (
    ADDRESS,
    LAST_RULES,
    ROMAN,
    Numerals,
    Replacement,
    address,
    compile_rules,
    inflected,
    substitute,
    write_by_rules,
)
from shared.speech.text.spoken_form import is_day, lists_of, pairs_of, read_pairs

_LAST_HOUR, _LAST_MINUTE, _NOON = 24, 59, 12
_EVENING, _THIS_CENTURY = 8, 50
_YEARS: Final = range(1900, 2100)
_NUMBER: Final = (  # thousands as in English, thousands with dots, and decimals with either sign
    r"(?<!\d)(?>\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}(?!\d)"
    r"|\d{1,3}(?:\.\d{3})+(?!\d)(?:,\d+)?|\d+(?:[.,]\d+)?)"
)
_ENGLISH_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}")
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_CODES: Final = read_pairs("US$ $  USD $  EUR €  GBP £  JPY ¥  CHF ₣  R$ ₢  BRL ₢")
_ANY_CODE, _ANY_CURRENCY = r"(?:US|R)\$|\b(?:USD|EUR|GBP|JPY|CHF|BRL)\b", "[$€£¥₩₹₣₢]"
_LETTER: Final = "[a-zñáéíóúàèìòùâêôãõç]"
_ROMAN: Final = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"
_ACRONYM = re.compile(
    r"(?<!\w)[A-ZÑ]{2,5}(?!\w)|(?<![\w'])[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz](?![\w'])"
)
_PRONOUNCEABLE = re.compile(r"[^AEIOU]?(?:[AEIOU]{1,2}[^AEIOU]{1,2})*[AEIOU]{1,2}[NSLRDZT]?")


class RomanceForm:
    """Writes texts of one language in words; its file says what the tables of words hold."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.words: Mapping[str, str] = table["words"]
        self._table = table
        self._pairs = pairs_of(table)
        self._lists = lists_of(table)
        numerals = Numerals(table)
        self.cardinal, self.digits = numerals.cardinal, numerals.digits
        self._numbered = re.compile(rf"(?i)\b(?:{table['patterns']['numbered']}) $")
        self._rules = compile_rules(self._spoken(table["patterns"]))

    def write_out(self, text: str) -> str:
        """Write a text in words and `. , ! ? ' " -`; it may be empty."""
        number = self.words["number"]
        written = write_by_rules(text, self._rules, self.power, self.mixed_fraction, number)
        is_shouted = written.isupper() and " " in written
        return written if is_shouted else _ACRONYM.sub(self.spelled, written)

    def ordinal(self, number: int, ending: str = "o") -> str:
        listed = self._lists["ordinals"]
        if 1 <= number <= len(listed):
            return listed[number - 1][:-1] + ending
        said = substitute(self._table["further_ordinals"], self.cardinal(number))
        return said[:-1] + ending if self._table["further_ordinals"] else said

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

    def agree(self, numeral: str, noun: str) -> str:
        """Put a numeral before a noun: una hora."""
        return substitute(self._table["agreement"], f"{numeral}|{noun}").replace("|", " ")

    def counted(self, number: str, noun: str) -> str:
        return self.agree(self.number(number), inflected(noun, plural=number != "1"))

    def amount(self, sign: str, number: str, scale: str | None = None) -> str:
        noun, _, cent = self._pairs["currencies"][sign].partition("/")
        if scale:
            said = self.agree(self.number(number), scale)
            return f"{said} {self.words['of']} {inflected(noun, plural=True)}"
        if not cent or not re.fullmatch(r"\d[\d.,]*[.,]\d\d", number):
            return self.counted(number, noun)
        whole, decimals = re.sub("[.,]", "", number[:-3]), str(int(number[-2:]))
        cents = self.counted(decimals, cent) if decimals != "0" else ""
        if not int(whole):
            return cents or self.counted("0", noun)
        return self.counted(whole, noun) + (f" {self.words['cents']} {cents}" if cents else "")

    def quantity(self, found: re.Match[str]) -> str:
        if found[2] in ("G", "S", "H", "M", "T"):
            return found[0]
        return self.counted(found[1], self._pairs["units"][found[2].lower()])

    def rate(self, found: re.Match[str]) -> str:
        unit = inflected(self._pairs["units"][found[2].lower()], plural=False) if found[2] else ""
        return f"{found[1] or ''} {self.words['by']} {unit}"

    def date(self, day: str, month: str, year: str = "", time: str | None = None) -> str | None:
        if not is_day(int(month), int(day)):
            return None
        if len(year) == 2:  # noqa: PLR2004 - as in 27/11/26
            year = ("20" if int(year) < _THIS_CENTURY else "19") + year
        of, first = self.words["date"], self.words["first"]
        said = [
            first if int(day) == 1 else self.cardinal(int(day)),
            self._lists["months"][int(month) - 1],
            *([self.cardinal(int(year))] if year else []),
        ]
        return of.join(said) + (f", {time}" if time else "")

    def slashed(self, found: re.Match[str]) -> str:
        parts = " ".join(self.cardinal(int(part)) for part in found.groups())
        return self.date(found[1], found[2]) or parts

    def fraction(self, found: re.Match[str]) -> str:
        """Read `2 1/2 kg` and `1/2 hora`; a day such as `11/9` stays as it is."""
        whole, above, below, unit, noun = found.groups()
        if int(above) >= int(below):
            return found[0]
        many = self._pairs["units"][unit.lower()] if unit else noun or ""
        one = inflected(many, plural=False)
        if whole and noun:
            one = substitute(self._table["singular"], noun)
        said = self.counted(above, self._lists["parts"][int(below) - 2])
        is_half = below == "2"
        if is_half:
            is_feminine = self.agree(self.cardinal(1), one).startswith(("una", "un'", "uma"))
            said = self._lists["parts"][0][:-1] + ("a" if is_feminine else "o")
        if whole:
            several = one if whole == "1" else inflected(many, plural=True)
            counted = self.agree(self.number(whole), several) if several else self.number(whole)
            return f"{counted} {self.words['and']} {said}"
        of = f" {self.words['of']}" if unit and not is_half else ""
        return f"{said}{of} {one}".rstrip()

    def clock(self, found: re.Match[str]) -> str:
        hour, minute = int(found["hour"]), int(found["minute"] or 0)
        if hour > _LAST_HOUR or minute > _LAST_MINUTE:
            return found[0]
        said = self.counted(str(hour), self._pairs["units"]["h"]).replace("un' ", "una ")
        if minute or found["half"] or (hour % _LAST_HOUR and not found["unit"]):
            said = said.rpartition(" ")[0]
        if minute:
            said += f" {self.words['and']} {self.cardinal(minute)}"
        if found["half"]:
            is_evening = found["half"] in "pP" and hour % _NOON >= _EVENING
            said += " " + self.words["evening" if is_evening else found["half"].lower() + "m"]
        return (found.groupdict().get("before") or "") + said

    def power(self, exponent: str) -> str:
        if exponent in ("2", "3"):
            return " " + self.words["squared" if exponent == "2" else "cubed"]
        minus = self.words["minus"] + " " if exponent.startswith("-") else ""
        return f" {self.words['power']} {minus}{exponent.lstrip('+-')}"

    def mixed_fraction(self, whole: str, above: str, below: str) -> str:
        return f"{whole} {above}/{below}".lstrip()

    def roman(self, found: re.Match[str]) -> str:
        number = ROMAN.index(found["roman"])
        before, after = found["before"] or "", found["after"] or ""
        ending = "a" if (before or after).endswith(("a", "bel", "ón")) else "o"
        if after:
            return f"{self.ordinal(number, ending)} {after}"
        is_name = before[:1].isupper() and number <= self._table["most_ordinals_of_names"]
        return f"{before} {self.ordinal(number, ending) if is_name else self.cardinal(number)}"

    def before_noun(self, found: re.Match[str]) -> str:
        """Let a number agree with the word after it, if that is likely to be a noun."""
        number, noun = found[1], found["noun"] or ""
        before = found.string[: found.start()][-20:]
        counts = (number == "1" or noun.endswith("s")) and not self._numbered.search(before)
        is_year = number.isdecimal() and len(number) == 4 and int(number) in _YEARS  # noqa: PLR2004
        said = self.number(number)
        if noun and counts and not is_year and noun not in self._lists["other_words"]:
            said = self.agree(said, noun)
        else:
            said += f" {noun}"
        return said if before.endswith("'") else f" {said} "

    def spelled(self, found: re.Match[str]) -> str:
        word = found[0].upper()
        if len(word) > 2 and _PRONOUNCEABLE.fullmatch(word):  # noqa: PLR2004 - as ONU and NATO
            return found[0]
        return " ".join(self._pairs["letters"][letter] for letter in word)

    def _spoken(self, patterns: Mapping[str, str]) -> Iterable[tuple[str, Replacement]]:
        words, pairs, months = self.words, self._pairs, self._lists["months"]
        minus, to, of = f" {words['minus']} ", f" {words['to']} ", words["date"]
        names = [words[name] for name in ("dot", "at", "slash", "dash")]
        any_month, short = "|".join(months), "|".join(month[:3] for month in months)
        number = f"({_NUMBER})"
        scale = rf"(?:\s({patterns['scales']})\b(?: {words['of']})?)?"
        dot = r"\b(?:\.(?!\s*$|\s[A-Z]))?"
        half = rf"(?:\s?(?P<half>[aApP])\.?\s?[mM]{dot})"
        unit = rf"(?:\s?(?P<unit>h|hrs?|horas|ore){dot})"
        any_unit = rf"(?:(?i:{_any(pairs['units'])})(?!['\w]))"
        measured = rf"(?:{_ANY_CURRENCY}|%|{any_unit})"
        noun = rf"(?!(?:{'|'.join(self._lists['other_words'])})\b){_LETTER}"
        return (
            *((pattern, instead) for pattern, instead in self._table["further"]),
            (rf"(?<![\w.@-])(?:{_any(pairs['abbreviations'])})(?!\w)",
             lambda found: pairs["abbreviations"][found[0]]),
            (r"\b(?:[A-Z]\.){2,}", lambda found: found[0].replace(".", " ")),
            (r"(?<=\d)(?:o\s?| o)(?=[CF]\b)", "°"),
            (r"(?<!\w)([-–−]\d\d?)o\b", r"\1°"),
            (r"(?<![\d'])(\d{1,3})['′](?![\w'])", r"\1 min"),
            (ADDRESS, lambda found: address(found[0], *names)),
            (r"(?<=\d) (?=(?:\d{3} )?000(?!\d))", ""),
            ((r"\b(\d{4})-(\d{1,2})-(\d{1,2})"
              r"(?:T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"),
             lambda found: self.date(found[3], found[2], found[1], found[4]) or found[0]),
            (r"(?<![\d/.-])(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d\d)(?![\d/-]|\.\d)",
             lambda found: self.date(found[1], found[3], found[4]) or found[0]),
            (r"(?<![\d/.-])(0?[1-9]|1[0-2])/((?:19|20)\d\d)(?![\d/])",
             lambda found: f"{months[int(found[1]) - 1]}{of}{found[2]}"),
            (r"(?i)(?:(?<=[aei]l )|(?<=em )|(?<=d[ií]a ))(\d\d?)/(\d\d?)(?![\w/]| d[aeio])",
             lambda found: self.date(found[1], found[2]) or found[0]),
            (rf"(?i)(?<!\d)1(?:°|[ºo]\b)?{of}(?=(?:{any_month})\b)", f"{words['first']}{of}"),
            (rf"(?i)(?<=\d )(?:{of.strip()} )?({short})\b\.?",
             lambda found: of.lstrip()
             + next(month for month in months if month[:3] == found[1].lower())),
            (rf"({_ANY_CODE})\s?(?={_NUMBER})|(?<=\d)\s?({_ANY_CODE})",
             lambda found: _CODES[found[1] or found[2]]),
            ((rf"(?<![\w./])(?:(\d+) )?([1-9])/([2-9]|10)(?:\s?({any_unit})"
              rf"|\s({noun}(?(1){patterns['plural']}|\w\w+))\b)?(?![\w/])"), self.fraction),
            (rf"(?<=\d)(\s?{measured})?\s?[-–]\s?(?={_NUMBER}\s?{measured})", rf"\1{to}"),
            (rf"(?<=\d)(\s?{measured})?/(?:({any_unit})|(?(1)(?=\w)|(?!)))", self.rate),
            (rf"({_ANY_CURRENCY})\s?{number}\s?[-–]\s?\1?(?=\d)", rf"\2{to}\1"),
            (rf"(?<![\w)])[-–−](?={_ANY_CURRENCY}|[.,]?\d)|(?<=[=(+])\s?-(?=[a-z]\b)", minus),
            (rf"({_ANY_CURRENCY})\s?{number}{scale}",
             lambda found: f" {self.amount(found[1], found[2], found[3])} "),
            (rf"{number}{scale}\s?({_ANY_CURRENCY})",
             lambda found: f" {self.amount(found[3], found[1], found[2])} "),
            ((r"(?<![\w.,])(?:\+|00)\d{1,3}(?:[ .-]?\d{2,4}){2,5}\b"
              r"|(?<![\w.,-])\d{2,4}(?:[ -]\d{2,4}){2,4}\b(?![.,]\d)"
              rf"|(?<!\w)(?:{patterns['telephone']})\b"),
             lambda found: ", ".join(map(self.digits, re.findall(r"\d+", found[0])))),
            (r"(?<=\d:\d\d)\s?[-–~]\s?(?=\d{1,2}:\d\d)", to),
            (rf"(?<![\d:])(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::\d\d)?(?![\d:]){unit}?{half}?",
             self.clock),
            (rf"(?<![\d.,])(?P<hour>\d{{1,2}})(?P<minute>)(?P<unit>){half}", self.clock),
            ((rf"(?i)\b(?P<before>(?:{patterns['before_clock']}) )?(?P<hour>\d{{1,2}})[.]"
              rf"(?P<minute>\d\d)(?![.,]?\d)(?P<half>)(?(before)|{unit})"), self.clock),
            (r"(?<=\d)\s?:\s?(?=\d)|(?<=\w)\s?~\s?(?=\w)", to),
            ((r"(?<![\d.])(?!\d+(?:\.\d{3}){3}(?![.\d]))\d{1,3}(?:\.\d{1,3}){3}(?![.\d])"
              r"|(?<!\d)\d+(?:\.\d{1,2}){2,}\b"),
             lambda found: f" {words['point']} ".join(map(self.number, found[0].split(".")))),
            (r"(?<!\w)(\d+)\.?([oa])\b(?!')", lambda found: self.ordinal(int(found[1]), found[2])),
            (r"(?<![\w.,-])(\d|10)°(?=\s[a-z]{4})", lambda found: self.ordinal(int(found[1]))),
            (r"(?<![\w.])(\d{1,3})/(\d{1,3})(?![\w/])", self.slashed),
            (r"(?<=[\w)])\^(-?\w+)", lambda found: self.power(found[1])),
            (r"(?<=[\w)])\s−\s(?=[\w(])|(?<=\d)\s?[-−]\s?(?=\d+(?:[.,]\d+)?\s?=)", minus),
            ("−", "-"),
            (r"(?<=\d)\s?[-–]\s?(?=\d)", to),
            (r"(?<=\d)\s?°\s?([CF])\b", lambda found: f"°{found[1].lower()}"),
            (r"(?:(?<=\d)\s?|(?<=\w)\s)[x×]\s?(?=\d)", f" {words['by']} "),
            (rf"(?<![A-Za-z]){number}\s?({any_unit})", self.quantity),
            ((rf"\b(?:(?P<before>(?i:{patterns['numbered']})|[A-Z]\w*[a-zñ]) )?(?P<roman>{_ROMAN})"
              rf"(?![\w'])(?(before)| (?P<after>{patterns['after_roman']})\b)"), self.roman),
            (r"(?<=[A-Za-z])(?=\d)", " "),
            (r"(?<![\d.])[.,](\d+)\b", lambda found: f" {words['comma']} {self.digits(found[1])} "),
            (rf"{number}(?: (?P<noun>{_LETTER}{{3,}})\b)?", self.before_noun),
            (f"[{re.escape(''.join(pairs['signs']))}]",
             lambda found: f" {pairs['signs'][found[0]]} "),
            (r"#(?=\w)", f"{words['hash']} "),
            *LAST_RULES,
        )  # fmt: skip


def _any(names: Mapping[str, str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))
