"""The spoken form of English texts: numbers, dates, amounts, units, abbreviations and signs."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
"""
_ONES = _NUMBERS.split()
_BEFORE_TY = "twen thir for fif six seven eigh nine"
_TENS = ("", "", *(f"{ten}ty" for ten in _BEFORE_TY.split()))
_SCALES = ("", "thousand", "million", "billion", "trillion")
_MOST_DIGITS: Final = 15
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth"}
_IRREGULAR |= {"eight": "eighth", "nine": "ninth", "twelve": "twelfth"}
_YEAR = "January February March April May June July August September October November December"
_MONTHS = _YEAR.split()
_LAST_MONTH, _LAST_DAY, _LAST_HOUR, _LAST_MINUTE = 12, 31, 24, 59


def cardinal(number: int) -> str:
    """Write a number that is not negative in words; one without a name digit by digit."""
    if len(str(number)) > _MOST_DIGITS:
        return digits(str(number))
    if number < len(_ONES):
        return _ONES[number]
    words: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1_000)
        hundreds, rest = divmod(group, 100)
        said = [_ONES[hundreds], "hundred"] if hundreds else []
        if rest >= len(_ONES):
            said.append(_TENS[rest // 10])
            rest %= 10
        said += [_ONES[rest]] if rest else []
        words = [*said, *([scale] if said and scale else []), *words]
    return " ".join(words)


def digits(text: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in text)


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


def read_pairs(table: str) -> dict[str, str]:
    """Read a table of `short word` pairs; `_` stands for a space."""
    words = table.split()
    return {
        short: word.replace("_", " ") for short, word in zip(words[::2], words[1::2], strict=True)
    }


_CURRENCIES: Final = {
    "$": ("dollar", "dollars", "cent"),
    "€": ("euro", "euros", "cent"),
    "£": ("pound", "pounds", "penny"),
    "¥": ("yen", "yen", ""),
    "₩": ("won", "won", ""),
    "₹": ("rupee", "rupees", "paisa"),
}
_AMOUNT_SCALES: Final = read_pairs("""
    k thousand  m million  mn million  b billion  bn billion  thousand thousand  million million
    billion billion  trillion trillion
""")
_UNITS: Final = read_pairs("""
    km/h kilometer_per_hour  kph kilometer_per_hour  mph mile_per_hour  m/s meter_per_second
    mbps megabit_per_second  gbps gigabit_per_second  kbps kilobit_per_second
    km kilometer  cm centimeter  mm millimeter  kg kilogram  mg milligram  g gram  ml milliliter
    l liter  lb pound  lbs pound  oz ounce  ft foot  mi mile  yd yard  kb kilobyte  mb megabyte
    gb gigabyte  tb terabyte  ghz gigahertz  mhz megahertz  khz kilohertz  hz hertz
    kwh kilowatt_hour  kw kilowatt  mw megawatt  w watt  v volt  mah milliamp_hour  kcal kilocalorie
    ms millisecond  sec second  min minute  hr hour  hrs hour  fps frame_per_second  px pixel
    db decibel  m meter  s second  h hour
""")
_ANY_UNIT = f"(?i:{'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})"
_ANY_SCALE = "|".join(_AMOUNT_SCALES)
_HALF_DAY = r"([apAP])\.?[mM]\b(?:\.(?!\s*$|\s[A-Z]))?"
_UNCHANGED = frozenset({"hertz", "kilohertz", "megahertz", "gigahertz"})
_ABBREVIATIONS: Final = read_pairs("""
    Mr. Mister  Mrs. Missus  Ms. Miz  Dr. Doctor  Prof. Professor  Jr. Junior  Sr. Senior
    Gen. General  Col. Colonel  Sgt. Sergeant  Lt. Lieutenant  Capt. Captain  Rev. Reverend
    Ave. Avenue  Blvd. Boulevard  Rd. Road  Mt. Mount  Inc. Incorporated  Ltd. Limited
    Corp. Corporation  Co. Company  dept. department  Dept. Department  approx. approximately
    vs. versus  vs versus  etc. et_cetera  e.g. for_example  i.e. that_is  est. established
    Jan. January  Feb. February  Mar. March  Apr. April  Aug. August  Sept. September
    Sep. September  Oct. October  Nov. November  Dec. December  Mon. Monday  Tue. Tuesday
    Tues. Tuesday  Wed. Wednesday  Thu. Thursday  Thurs. Thursday  Fri. Friday
""")
_SIGNS: Final = read_pairs(
    "& and  @ at  + plus  = equals  % percent  × times  ÷ divided_by  ° degrees"
)
_FRACTIONS: Final = {2: "half", 3: "third", 4: "quarter"}
_LARGEST_DENOMINATOR: Final = 10
_ROMAN: Final = read_pairs("""
    II two  III three  IV four  VI six  VII seven  VIII eight  IX nine  XI eleven  XII twelve
    XIII thirteen  XIV fourteen  XV fifteen  XVI sixteen  XIX nineteen  XX twenty
""")

_NUMBER = r"(?<!\d)(?>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"  # without a way back
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad]")
_PLAIN = str.maketrans(dict(zip("‘’‛“”„‐‑‒−、。\n\r\t", "'''\"\"\"----,.   ", strict=True)))


def amount(found: re.Match[str]) -> str:
    sign, number, scale = found[1], found[2], found[3]
    one, many, cent = _CURRENCIES[sign]
    if scale:
        return f"{number_in_words(number)} {_AMOUNT_SCALES[scale.lower()]} {many}"
    whole, _, decimals = number.replace(",", "").partition(".")
    if len(decimals) not in (0, 2) or (decimals and not cent):
        return f"{number_in_words(number)} {many}"
    said = f"{cardinal(int(whole))} {one if int(whole) == 1 else many}"
    cents = int(decimals or 0)
    if not cents:
        return said
    of_cents = f"{cardinal(cents)} {plural_of(cent, cents)}"
    return f"{said} and {of_cents}" if int(whole) else of_cents


def plural_of(unit: str, count: float) -> str:
    if count == 1 or unit in _UNCHANGED:
        return unit
    if unit in ("foot", "penny", "paisa"):
        return {"foot": "feet", "penny": "pence", "paisa": "paise"}[unit]
    first, _, rest = unit.partition(" per ")
    return f"{first}s per {rest}" if rest else f"{unit}s"


def quantity(found: re.Match[str]) -> str:
    count = float(found[1].replace(",", ""))
    return f"{number_in_words(found[1])} {plural_of(_UNITS[found[2].lower()], count)}"


def full_date(number: int, month: int, day: int) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(number)}"


def iso_date(found: re.Match[str]) -> str:
    number, month, day = (int(found[each]) for each in (1, 2, 3))
    return full_date(number, month, day) if is_day(month, day) else found[0]


def slashed_date(found: re.Match[str]) -> str:
    """Read a date as Americans write it, and as others do where the month says so."""
    month, day, number = (int(found[each]) for each in (1, 2, 3))
    if not is_day(month, day):
        month, day = day, month
    return full_date(number, month, day) if is_day(month, day) else found[0]


def is_day(month: int, day: int) -> bool:
    return 1 <= month <= _LAST_MONTH and 1 <= day <= _LAST_DAY


def time_of_day(found: re.Match[str]) -> str:
    hour, minute, half = int(found[1]), int(found[2]), found[3]
    if hour > _LAST_HOUR or minute > _LAST_MINUTE:
        return found[0]
    said = cardinal(hour)
    if minute:
        said += f" {'oh ' if minute < 10 else ''}{cardinal(minute)}"  # noqa: PLR2004
    elif not half:
        said += " o'clock" if 1 <= hour <= _LAST_MONTH else " hundred"
    return f"{said} {half[0].upper()} M" if half else said


def fraction(found: re.Match[str]) -> str:
    first, second = int(found[1]), int(found[2])
    if not 0 < first < second <= _LARGEST_DENOMINATOR:
        return f"{cardinal(first)} {cardinal(second)}"
    part = _FRACTIONS.get(second) or ordinal(second)
    plural = {"half": "halves"}.get(part, f"{part}s")
    return f"{cardinal(first)} {part if first == 1 else plural}"


def decade(found: re.Match[str]) -> str:
    said = year(int(found[1])) if len(found[1]) > 2 else cardinal(int(found[1]))  # noqa: PLR2004
    return f"{said[:-1]}ies" if said.endswith("y") else f"{said}s"


def address(found: re.Match[str]) -> str:
    """Read a mail or web address: `a.b@c.org` is a dot b at c dot org."""
    plain = re.sub(r"^https?://(?:www\.)?", "", found[0], flags=re.IGNORECASE).rstrip("/.,")
    for sign, word in ((".", "dot"), ("@", "at"), ("/", "slash"), ("-", "dash"), ("_", " ")):
        plain = plain.replace(sign, f" {word} ")
    return re.sub(r"[^\w ]+", " ", plain)


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?i:https?://|www\.)[!-~]+[A-Za-z0-9/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), address),
    (re.compile(r"\b(?:" + "|".join(map(re.escape, _ABBREVIATIONS)) + r")(?!\w)"),
     lambda found: _ABBREVIATIONS[found[0]]),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}(?=\s*$)"),
     lambda found: " ".join(found[0][::2]).upper() + "."),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}"), lambda found: " ".join(found[0][::2]).upper()),
    (re.compile(r"\bSt\.(?=\s[A-Z])"), "Saint"),
    (re.compile(r"\bSt\."), "Street"),
    (re.compile(r"\bNo\.\s?(?=\d)"), "number "),
    (re.compile(r"#(?=\d)"), "number "),
    (re.compile(rf"([$€£¥₩₹])\s?({_NUMBER})(?:\s?({_ANY_SCALE}|[KMB])\b)?"), amount),
    (re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b"), iso_date),
    (re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b"), slashed_date),
    (re.compile(rf"\b({'|'.join(_MONTHS)}) (\d{{1,2}})(?=,|\b(?![:.]\d))(?!\d)"),
     lambda found: f"{found[1]} {ordinal(int(found[2]))}"),
    (re.compile(rf"\b(\d{{1,2}}) (?=(?:{'|'.join(_MONTHS)})\b)"),
     lambda found: f"{ordinal(int(found[1]))} of "),
    (re.compile(rf"\b(\d{{1,2}}):(\d{{2}})(?::\d{{2}})?(?:\s?{_HALF_DAY})?"), time_of_day),
    (re.compile(rf"\b(\d{{1,2}})\s?{_HALF_DAY}"),
     lambda found: f"{cardinal(int(found[1]))} {found[2].upper()} M"),
    (re.compile(r"(?:\b|')((?:1[1-9]|20)\d0|[2-9]0)'?s\b"), decade),
    (re.compile(r"(?:\+\d{1,3}[ -])?(?:\(\d{3}\) ?|\d{3}[ -])\d{3}[ -]\d{4}\b|\b\d{3}-\d{4}\b"),
     lambda found: ", ".join(map(digits, re.findall(r"\d+", found[0])))),
    (re.compile(r"\b(\d+)(?:st|nd|rd|th)\b"), lambda found: ordinal(int(found[1]))),
    (re.compile(r"(?<![\w.])(\d{1,3})/(\d{1,3})(?![\w/])"), fraction),
    (re.compile(r"(?<=\d)\s?-\s?(?=\d)"), " to "),
    (re.compile(r"(?<![\w)])-(?=[.\d])"), "minus "),
    (re.compile(r"°\s?C\b"), " degrees Celsius"),
    (re.compile(r"°\s?F\b"), " degrees Fahrenheit"),
    (re.compile(rf"({_NUMBER})\s?({_ANY_UNIT})\b(?!')"), quantity),
    (re.compile(r"(?<=[A-Za-z])(?=\d)"), " "),
    (re.compile(r"(?<![\d.])\d+(?:\.\d+){2,}\b"),
     lambda found: " point ".join(cardinal(int(each)) for each in found[0].split("."))),
    (re.compile(r"(?<![\d.,])(?:1[1-9]|20(?=[1-9]))\d\d(?!\d|[,.]\d)"),
     lambda found: year(int(found[0]))),
    (re.compile(r"(?<=\d)\s?[x×]\s?(?=\d)"), " by "),
    (re.compile(_NUMBER), lambda found: f" {number_in_words(found[0])} "),
    (re.compile(r"(?<=[a-z] )(?:" + "|".join(_ROMAN) + r")\b"), lambda found: _ROMAN[found[0]]),
    (re.compile("[" + re.escape("".join(_SIGNS)) + "]"), lambda found: f" {_SIGNS[found[0]]} "),
    (re.compile(r"(?<=\w)/(?=\w)"), " "),
    (re.compile(r"#(?=\w)"), "hashtag "),
    (re.compile(r"\s+-+\s+|--+|[–—―;:]+(?=\s|$)|[()\[\]{}]"), ", "),
    (re.compile(r"\.{2,}"), "."),
)  # fmt: skip
_WRITTEN = re.compile(r"[^\w\s'.,!?\"-]|_")
_PAUSES = re.compile(r"[\s,]*,[\s,]*")
_BEFORE_END = re.compile(r"[\s,]+(?=[.!?])|^[\s,]+")


def write_out(text: str) -> str:
    """Write an English text in words and `. , ! ? ' " -`; it may be empty."""
    spoken = unicodedata.normalize("NFKC", _HIDDEN.sub("", text).replace("…", ". ")).translate(
        _PLAIN
    )
    for pattern, replace in _RULES:
        spoken = pattern.sub(replace, spoken)
    spoken = _PAUSES.sub(", ", _WRITTEN.sub(" ", spoken))
    return " ".join(_BEFORE_END.sub("", spoken).split())
