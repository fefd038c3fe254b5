"""The spoken form of English texts: numbers, dates, amounts, units, abbreviations and signs."""

import re
from typing import Final

from shared.speech.text.latin_form import (
    ADDRESS,
    LAST_RULES,
    ROMAN,
    Numerals,
    Replacement,
    address,
    compile_rules,
    inflected,
    write_by_rules,
)
from shared.speech.text.spoken_form import is_day, lists_of, pairs_of, read_table

_TABLE: Final = read_table("en")
_PAIRS, _LISTS = pairs_of(_TABLE), lists_of(_TABLE)
_COUNTING: Final = Numerals(_TABLE)
cardinal, digits = _COUNTING.cardinal, _COUNTING.digits
_IRREGULAR: Final = _PAIRS["ordinals"]
_MONTHS, _DAYS = _LISTS["months"], _LISTS["days"]
_NOON, _LAST_HOUR, _LAST_MINUTE = 12, 24, 59


def ordinal(number: int) -> str:
    *words, last = cardinal(number).split()
    if last in _IRREGULAR:
        return " ".join([*words, _IRREGULAR[last]])
    return " ".join([*words, f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"])


def year(number: int) -> str:
    """Write a year of four digits: `1905` is nineteen oh five."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:  # noqa: PLR2004 - 2000 to 2009
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"  # noqa: PLR2004


def number_in_words(text: str) -> str:
    whole, point, decimals = text.replace(",", "").partition(".")
    if len(whole) > 1 and whole[0] == "0" and not point:
        return digits(whole)
    said = cardinal(int(whole or "0"))
    return f"{said} point {digits(decimals)}" if decimals else said


_CODES: Final = _PAIRS["codes"]
_AMOUNT_SCALES: Final = _PAIRS["amount_scales"]
_UNITS: Final = _PAIRS["units"]
_ANY_UNIT = f"(?i:{'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})"
_ANY_SCALE = "|".join(_AMOUNT_SCALES)
_HALF_DAY = r"([apAP])\.?[mM]\b(?:\.(?!\s*$|\s[A-Z]))?"
_ABBREVIATIONS: Final = _PAIRS["abbreviations"]
_BEFORE_NUMBERS: Final = _PAIRS["before_numbers"]
_SIGNS: Final = _PAIRS["signs"]
_FRACTIONS: Final = {2: "half", 3: "third", 4: "quarter"}
_LARGEST_DENOMINATOR: Final = 10
_ROMAN = ROMAN[1:21]
_MONARCHS = "|".join(_LISTS["monarchs"])

_NUMBER = r"(?<!\d)(?>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"  # without a way back


def counted(number: str, noun: str) -> str:
    is_plural = float(number.replace(",", "")) != 1
    return f"{number_in_words(number)} {inflected(noun, plural=is_plural)}"


def amount(sign: str, number: str, scale: str | None = None) -> str:
    noun, _, cent = _PAIRS["currencies"][sign].partition("/")
    if scale:
        scale = _AMOUNT_SCALES[scale.lower()]
        return f"{number_in_words(number)} {scale} {inflected(noun, plural=True)}"
    whole, _, decimals = number.replace(",", "").partition(".")
    if len(decimals) not in (0, 2) or (decimals and not cent):
        return f"{number_in_words(number)} {inflected(noun, plural=True)}"
    cents = int(decimals or 0)
    if not cents:
        return counted(whole, noun)
    of_cents = counted(str(cents), cent)
    return f"{counted(whole, noun)} and {of_cents}" if int(whole) else of_cents


def quantity(found: re.Match[str]) -> str:
    if found[2] in ("G", "S", "H"):
        return found[0]
    return counted(found[1], _UNITS[found[2].lower()])


def full_date(number: int, month: int, day: int) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(number)}"


def iso_date(found: re.Match[str]) -> str:
    number, month, day = (int(found[each]) for each in (1, 3, 4))
    if not is_day(month, day):
        return found[0]
    return full_date(number, month, day) + (f", {found[5]}" if found[5] else "")


def slashed_date(found: re.Match[str]) -> str:
    """Read a date as Americans write it, and as others do where the month or a dot says so."""
    month, day, number = (int(found[each]) for each in (1, 3, 4))
    if not is_day(month, day) or (found[2] == "." and is_day(day, month)):
        month, day = day, month
    return full_date(number, month, day) if is_day(month, day) else found[0]


def time_of_day(found: re.Match[str]) -> str:
    hour, minute, half = int(found[1]), int(found[2]), found[3]
    if hour > _LAST_HOUR or minute > _LAST_MINUTE:
        return found[0]
    said = cardinal(hour)
    if minute:
        said += f" {'oh ' if minute < 10 else ''}{cardinal(minute)}"  # noqa: PLR2004
    elif not half:
        said += " o'clock" if 1 <= hour <= _NOON else " hundred"
    return f"{said} {half[0].upper()} M" if half else said


def fraction(found: re.Match[str]) -> str:
    first, second = int(found[1]), int(found[2])
    if not 0 < first < second <= _LARGEST_DENOMINATOR:
        return f"{cardinal(first)} {cardinal(second)}"
    part = _FRACTIONS.get(second) or ordinal(second)
    plural = {"half": "halves"}.get(part, f"{part}s")
    return f"{cardinal(first)} {part if first == 1 else plural}"


def power(exponent: str) -> str:
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    number = exponent.lstrip("+-")
    said = ordinal(int(number)) if number.isdecimal() else number
    return f" to the {'minus ' * exponent.startswith('-')}{said}"


def mixed_fraction(whole: str, above: str, below: str) -> str:
    if (above, below) == ("1", "2") and whole:
        return f"{whole} and a half"
    return (f"{whole} and " if whole else "") + f"{above}/{below}"


def span(found: re.Match[str]) -> str:
    """Read `Mon-Fri` and `Jan–Mar`."""
    names = [
        next((name for name in (*_DAYS, *_MONTHS) if name.startswith(each)), "")
        for each in found.groups()
    ]
    return " to ".join(names) if all(names) else found[0]


def dotted(found: re.Match[str]) -> str:
    said = " dot ".join(cardinal(int(part)) for part in found[1].split("."))
    return said + (f" {'port' if found[2] == ':' else 'slash'} {found[3]}" if found[2] else "")


def decade(found: re.Match[str]) -> str:
    said = year(int(found[1])) if len(found[1]) > 2 else cardinal(int(found[1]))  # noqa: PLR2004
    return f"{said[:-1]}ies" if said.endswith("y") else f"{said}s"


_SHORT_MONTH = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_CODE = "|".join(_CODES)
_SPOKEN: tuple[tuple[str, Replacement], ...] = (
    (ADDRESS, lambda found: address(found[0], "dot", "at", "slash", "dash")),
    (r"\b([A-Z][a-z]+) Dr\.(?!\s[A-Z])", r"\1 Drive"),
    (r"(?<!\w)(?:" + "|".join(map(re.escape, _ABBREVIATIONS)) + r")(?!\w)",
     lambda found: _ABBREVIATIONS[found[0]]),
    (r"\b(?!(?i:[ap]\.m\.))(?:[A-Za-z]\.){2,}(\s*$)?",
     lambda found: " ".join(found[0].rstrip()[::2]).upper() + ("" if found[1] is None else ".")),
    (r"\bSt\.?(?=\s[A-Z])", "Saint"),
    (r"\bSt\.", "Street"),
    (rf"(?i)\b({'|'.join(_BEFORE_NUMBERS)})\.\s?(?=\d)",
     lambda found: f"{_BEFORE_NUMBERS[found[1].lower()]} "),
    (r"#(?=\d)", "number "),
    (r"(?<=[\w)])\s?(?:[-=]{1,3}>|→)\s?(?=[\w(])", " to "),
    (r"(?<=[\w)]) ?([<>]=?|[≤≥≦≧≠]) ?(?=[\w(-])",
     lambda found: f" {_PAIRS['compared'][found[1]]} "),
    (rf"\b({_CODE})\s?(?={_NUMBER})", lambda found: _CODES[found[1]]),
    (rf"({_NUMBER})\s?({_CODE})\b", lambda found: _CODES[found[2]] + found[1]),
    (rf"([$€£¥])\s?({_NUMBER})\s?[-–]\s?\1?(?=\d)", r"\2 to \1"),
    (r"(?<![\w)])[-–−](?=[$€£¥₩₹])", "minus "),
    (rf"((?:\b(?:US|[ACR]))?\$|[€£¥₩₹]|\bCHF)\s?({_NUMBER})(?:\s?({_ANY_SCALE}|[KMB])\b)?",
     lambda found: f" {amount(found[1], found[2], found[3])}"),
    (rf"(?<![$€£¥₩₹\d])({_NUMBER})\s?([$€£¥₩₹])(?!\d)", lambda found: amount(found[2], found[1])),
    (rf"({_NUMBER})\s?¢",
     lambda found: counted(found[1], "cent(s)")),
    ((r"\b(\d{4})([-/])(\d{1,2})\2(\d{1,2})"
     r"(?:T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), iso_date),
    (r"\b(\d{1,2})([/.])(\d{1,2})\2(\d{4})\b", slashed_date),
    (r"\b([A-Z][a-z]{2,8})\.?\s?[-–~]\s?([A-Z][a-z]{2,8})\b\.?", span),
    (rf"\b({_SHORT_MONTH})\b\.?(?=\s\d)|(?<=\d )({_SHORT_MONTH})\b\.?",
     lambda found: next(name for name in _MONTHS if name[:3] == found[0][:3])),
    (rf"\b({'|'.join(_MONTHS)}) (\d{{1,2}})(?=,|\b(?![:.]\d))(?!\d)",
     lambda found: f"{found[1]} {ordinal(int(found[2]))}"),
    (rf"\b(\d{{1,2}}) (?=(?:{'|'.join(_MONTHS)})\b)",
     lambda found: f"{ordinal(int(found[1]))} of "),
    (r"\b(\d{1,3}(?:\.\d{1,3}){3})(?:([:/])(\d{1,5}))?(?![.\d])", dotted),
    (r"(?<!\d )\b([AP])M(?:(?=\d)|\s(?=\d{1,2}:))(\d{1,2}(?::\d\d)?)(?![\d:.])", r"\2 \1M"),
    ((r"(?i)\b(\d{1,2}(?::\d\d)?\s?(?:[ap]\.?m\b\.?)?)\s?[-–~]\s?"
     r"(?=\d{1,2}(?::\d\d|\s?[ap]\.?m\b))"), r"\1 to "),
    (rf"\b(\d{{1,2}})\.(?=\d\d\s?{_HALF_DAY})", r"\1:"),
    (rf"\b(\d{{1,2}}):(\d{{2}})(?::\d{{2}})?(?:\s?{_HALF_DAY})?", time_of_day),
    (rf"\b(\d{{1,2}})\s?{_HALF_DAY}",
     lambda found: f"{cardinal(int(found[1]))} {found[2].upper()} M"),
    (r"(?<=\d)\s?:\s?(?=\d)|(?<=\w)\s?~\s?(?=\w)", " to "),
    (r"(?:\b|')((?:1[1-9]|20)\d0|[2-9]0)'?s\b", decade),
    ((r"(?:\+?\d{1,3}[ -])?(?:\(\d{3}\) ?|\b\d{3}[ -])\d{3}[ -]\d{4}\b|\b\d{3}-\d{4}\b"
     r"|\+\d{1,3}(?:[ -]\d{2,4}){2,5}\b|(?<![\d-])\d+(?:-\d+){2,5}(?!\d)"
      r"|(?i:(?<=dial )|(?<=call ))(?:[1-9]1[12]|999)\b"),
     lambda found: ", ".join(map(digits, re.findall(r"\d+", found[0])))),
    (r"(?<=\dst|\dnd|\drd|\dth)\s?[-–]\s?(?=\d+[snrt])", " to "),
    (r"\b(\d+)(?:st|nd|rd|th)\b", lambda found: ordinal(int(found[1]))),
    (r"(?<![\w./])(\d+) (?=[1-9]/[2-9]\b)", r"\1 and "),
    (r"(?<=\d)\s?/\s?(?=\d+\s?=)", " divided by "),
    (r"(?<![\w.])(\d{1,3})/(\d{1,3})(?![\w/])", fraction),
    (r"(?<=[\w)])\^(-?\w+)", lambda found: power(found[1])),
    (r"(?<=\d)[eE]\+?(-?\d+)\b", lambda found: f" times ten{power(found[1])}"),
    (r"(?<=[\w)])\s−\s(?=[\w(])|(?<=\d)\s?[-−]\s?(?=\d+(?:\.\d+)?\s?=)", " minus "),
    ("−", "-"),
    (r"(?<=\d)\s?[-–]\s?(?=\d)", " to "),
    ((r"(?<![\w)])[-–](?=[.\d])|(?:(?<=[=(+])|(?<=[=(+] ))-(?=[a-z]\b)"
     r"|(?<=UTC|GMT)[-–]"), " minus "),
    (r"(?<!\w)(\d)'(\d{1,2})(?:\"|''|(?!\w))", r"\1 foot \2"),
    (r"(\d+)\s?(?:ft|feet)\.?\s(\d{1,2})\s?in\b\.?", r"\1 ft \2 inches"),
    (r"(?<=\d)°(\d{1,2})['′](?:(\d{1,2}(?:\.\d+)?)(?:[\"″]|''|′′))?",
     lambda found: f" degrees {found[1]} minutes" + (f" {found[2]} seconds" if found[2] else "")),
    (r"°\s?C\b", " degrees Celsius"),
    (r"°\s?F\b", " degrees Fahrenheit"),
    (r"(?<=\d)M\b", " million"),
    (rf"(?<![A-Za-z])({_NUMBER})\s?({_ANY_UNIT})(?!['\w])", quantity),
    (r"\b([A-Z])([A-Z])(?=\d\b)", r"\1 \2"),
    (r"(?<=[A-Za-z])(?=\d)", " "),
    (r"(?<!\d)(?<!\d\.)\d+(?:\.\d+){2,}\b",
     lambda found: " point ".join(cardinal(int(each)) for each in found[0].split("."))),
    (r"(?<![\d.,])(?:1[1-9]|20(?=[1-9]))\d\d(?!\d|[,.]\d)", lambda found: year(int(found[0]))),
    (r"(?<=\d)\s?[x×]\s?(?=\d)", " by "),
    (r"(?<![\d.])\.(\d+)\b", lambda found: f" point {digits(found[1])} "),
    (_NUMBER, lambda found: f" {number_in_words(found[0])} "),
    (rf"\b({_MONARCHS}) ({'|'.join(_ROMAN)})\b(?!['.])",
     lambda found: f"{found[1]} the {ordinal(_ROMAN.index(found[2]) + 1)}"),
    ((rf"(?<=[a-z] )(?:{'|'.join(each for each in _ROMAN if len(each) > 1)})\b"
     r"|(?:(?<=War )|(?<=Part )|(?<=Chapter )|(?<=Act )|(?<=Volume ))[IVX]\b(?!')"),
     lambda found: cardinal(_ROMAN.index(found[0]) + 1)),
    ("[" + re.escape("".join(_SIGNS)) + "]", lambda found: f" {_SIGNS[found[0]]} "),
    (r"(?<=[A-G])#(?!\w)", " sharp"),
    (r"#(?=\w)", "hashtag "),
    *LAST_RULES,
)  # fmt: skip
_RULES = compile_rules(_SPOKEN)


def write_out(text: str) -> str:
    """Write an English text in words and `. , ! ? ' " -`; it may be empty."""
    return write_by_rules(text, _RULES, power, mixed_fraction, "number")
