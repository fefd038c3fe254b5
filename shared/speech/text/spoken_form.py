"""The spoken form of chat texts: dates, amounts, units, signs, emoji."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from shared.speech.text.normalisation import plain_text


def read_pairs(table: str) -> dict[str, str]:
    """Read a table of pairs; `_` in a word stands for a space."""
    words = [word.replace("_", " ") for word in table.split()]
    return dict(zip(words[::2], words[1::2], strict=True))


def read_table(language: str) -> dict[str, Any]:
    """Read the file of a language: its words, and the rules of its spelling where that has some."""
    return tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text("utf-8"))


def lists_of(table: Mapping[str, Any]) -> dict[str, list[str]]:
    lists: Mapping[str, str] = table["lists"]
    return {
        name: [word.replace("_", " ") for word in words.split()] for name, words in lists.items()
    }


def pairs_of(table: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {name: read_pairs(pairs) for name, pairs in table["pairs"].items()}


_PAIRS: Final = pairs_of(read_table("ja"))


_UNUSUAL = str.maketrans(dict(zip("〜～−‐–—―⁄’‘〇\n\r\t", "~~---、、/''○。。 ", strict=True)))
_MATHEMATICAL: Final = _PAIRS["mathematical"]
_SIGNS = {
    **_PAIRS["signs"],
    **dict.fromkeys("○◯", "まる"),
    **dict.fromkeys("→←⇒|…・•", "、"),
    **dict.fromkeys("®™*", ""),
    "_": " ",
}
_UNITS: Final = _PAIRS["units"]
_CURRENCIES: Final = _PAIRS["currencies"]
_EMOJI = {emoji: name for name, signs in _PAIRS["emoji_by_name"].items() for emoji in signs}
_MOST_EMOJI = 5
_ANY_EMOJI = "絵文字"

# Words of today that the dictionary reads wrongly.
_WORDS: Final = _PAIRS["words"]

_DAY_FOLLOWS = re.compile(r"\b(?:on|by|until|till|since|from|before|after|due)\s$", re.IGNORECASE)
_MAIL_SIGNS = str.maketrans({"@": "アットマーク", ".": "ドット", "-": "ハイフン", "+": "プラス"})
_MONTHS: Final = _PAIRS["months"]
_ERAS: Final = _PAIRS["eras"]
_TITLES: Final = _PAIRS["titles"]
_COUNTERS = "(?:[人個本枚回日分秒時年歳才円度点名件杯匹台階倍割ヶか週泊月章節号巻話行番位問品%℃]"
_COUNTERS += "|ページ|パーセント|キロ|メートル|グラム|シーズン|ポイント)"
_TO = r"~(?=[\dA-Za-z\u3400-\u9fff々「]|[\u30a1-\u30fc]{2})"
_NO_DATE = r"(?![\d/]|\.\d)"
# A number after a word has a sign if it has a unit, or if the word is no name of a thing.
_UNIT_AFTER = r"(?:%|℃|°|度|円|万|億|ドル|ポイント|点|パーセント"
_UNIT_AFTER += r"|(?:[kcm]?m|k?g|hPa|dB|V)(?![A-Za-z]))"
_COUNTED = re.compile(r"\d[\u3400-\u9fff々%℃]{1,2}$")
_CHAINED = re.compile(r"-[\d,.]+-\d")
_PAUSES = re.compile(r"(?:[、\s]*、[、\s]*)+")
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad]")
_DASHED = re.compile(r"(?<![\d–-])(\d+(?:\.\d+)?)–(?=\d+(?![\d–-]))")
_SPEAKABLE = re.compile(
    r"[A-Za-z0-9\u0370-\u03ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff々%℃"
    r"\ufa0e-\ufa29\U00020000-\U0003ffff]"
)
_WRITTEN = frozenset("、。!?,.'ー-/:% 々℃")

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True))
_RAISED = re.compile("(?:(?<=[0-9０-９)）])|([A-Za-zα-ω]))([⁻⁺]?[⁰¹²³⁴-⁹]+)")
_SQUARE_METRES = re.compile(r"(?<=[0-9０-９])\s?([kcmd]?m(?:/s)?)([²³])", re.IGNORECASE)
_FRACTION = re.compile("([0-9０-９]*)([¼-¾⅐-⅞↉])")
_NUMBERED = re.compile(
    "[₀-₉]+|[⁰¹²³⁴-⁹]+|[①-⒛⓪-⓿❶-➓㉈-㉟㊱-㊿㋀-㋋㍘-㍰㏠-㏾Ⅰ-Ⅻⅰ-ⅻ\U0001f100-\U0001f10a]"
)


def power(exponent: str) -> str:
    return f"の{exponent.replace('-', 'マイナス').replace('+', 'プラス')}乗"


def fraction(whole: str, above: str, below: str) -> str:
    return (f"{whole}と" if whole else "") + f"{below}分の{above}"


def separate_numbers(
    text: str,
    power: Callable[[str], str] = power,
    fraction: Callable[[str, str, str], str] = fraction,
    pause: str = "、",
) -> str:
    """Write powers and fractions in words, and part numbers in circles from the digits beside."""
    if text.isascii():
        return text

    def write_power(found: re.Match[str]) -> str:
        return (found[1] or "") + power("".join(_SUPERSCRIPTS[sign] for sign in found[2]))

    def write_fraction(found: re.Match[str]) -> str:
        above, _, below = unicodedata.normalize("NFKC", found[2]).partition("\u2044")
        return fraction(found[1], above, below)

    squared = _SQUARE_METRES.sub(lambda found: found[1] + _SUPERSCRIPTS[found[2]], text)
    fractions = _FRACTION.sub(write_fraction, _RAISED.sub(write_power, squared))
    return _NUMBERED.sub(lambda found: separate_number(found, pause), fractions)


def separate_number(found: re.Match[str], pause: str) -> str:
    text, begin, end = found.string, found.start(), found.end()
    plain = unicodedata.normalize("NFKC", found[0])
    if not plain[0].isdecimal():  # Roman, or white in a black circle
        plain = str(int(unicodedata.numeric(found[0])))
    before, after = text[begin - 1 : begin], text[end : end + 1]
    has_digit_before = before.isdecimal() or _NUMBERED.match(before)
    has_digit_after = after.isdecimal() and not plain[-1].isalpha()
    return pause * bool(has_digit_before) + plain + pause * has_digit_after


_LAST_MONTH, _LAST_DAY, _LAST_HOUR, _LAST_MINUTE, _LAST_BYTE = 12, 31, 29, 59, 255
_LARGEST_DENOMINATOR = 10


def write_out(text: str) -> str:
    visible = _HIDDEN.sub("", plain_text(text))
    for word in _WORDS:
        visible = visible.replace(word, _WORDS[word])
    dashed = _DASHED.sub(r"\1~", separate_numbers(visible))
    spoken = unicodedata.normalize("NFKC", dashed.translate(_UNUSUAL)).translate(_UNUSUAL)
    for pattern, replace in _RULES:
        spoken = pattern.sub(replace, spoken)
    spoken = "".join(_character(character) for character in spoken)
    if not _SPEAKABLE.search(spoken):
        # A text of emoji alone is read by their names.
        names = [
            _EMOJI.get(character, _ANY_EMOJI)
            for character in text
            if character in _EMOJI or "\U0001f000" <= character <= "\U0001faff"
        ]
        return "、".join(dict.fromkeys(names[:_MOST_EMOJI]))
    return _PAUSES.sub("、", " ".join(spoken.split())).strip("、 ")


def date(found: re.Match[str]) -> str:
    year, month, day = int(found[1]), int(found[3]), int(found[4])
    return f"{year}年{month}月{day}日" if is_day(month, day) else found[0]


def slashed(found: re.Match[str]) -> str:
    """Read `1/2` as a fraction and `11/22` as a day, as far as one can tell."""
    first, second, after = int(found[1]), int(found[2]), found[3]
    is_fraction = 0 < first < second <= _LARGEST_DENOMINATOR and after not in set("(にまか")
    is_fraction = is_fraction and not _DAY_FOLLOWS.search(found.string[: found.start()][-8:])
    if is_day(first, second) and not is_fraction:
        return f"{first}月{second}日"
    return f"{second}分の{first}"


def is_day(month: int, day: int) -> bool:
    return 1 <= month <= _LAST_MONTH and 1 <= day <= _LAST_DAY


def american_date(found: re.Match[str]) -> str:
    month, day, year = int(found[1]), int(found[2]), int(found[3])
    if not is_day(month, day):
        month, day = day, month
    return f"{year}年{month}月{day}日" if is_day(month, day) else found[0]


def days(found: re.Match[str]) -> str:
    first, last = (int(found[1]), int(found[2])), (int(found[3] or found[1]), int(found[4]))
    if not (is_day(*first) and is_day(*last)) or (not found[3] and first >= last):
        return found[0]
    month = f"{last[0]}月" if found[3] else ""
    return f"{first[0]}月{first[1]}日から{month}{last[1]}日"


def dotted(found: re.Match[str]) -> str:
    """Read an address of IPv4 with its dots, and a version with points."""
    parts, after = found[1].split("."), ""
    if found[2]:
        after = ("ポート" if found[2] == ":" else "スラッシュ") + found[3]
    is_address = len(parts) == len("IPv4") and all(int(part) <= _LAST_BYTE for part in parts)
    return ("ドット" if is_address else "点").join(parts) + after


def minus(found: re.Match[str]) -> str:
    text, begin = found.string, found.start()
    is_number = _CHAINED.match(text, begin) or _COUNTED.search(text[max(begin - 12, 0) : begin])
    return found[0] if is_number else "マイナス"


def from_to(found: re.Match[str]) -> str:
    """Read `10-20` as a range where things are counted, unless it falls as a score may."""
    first, last = found[1] or found[3], found[2] or found[4]
    is_year = len(first) > len(last) and float(last) == (float(first) + 1) % 100
    return f"{first}から{last}" if float(first) < float(last) or is_year else found[0]


_SCORES = re.compile("スコア|得点|[勝敗]|点差|セット|引き分け|リード|対戦|試合")


def score(found: re.Match[str]) -> str:
    around = found.string[max(found.start() - 20, 0) : found.end() + 20]
    return f"{found[1]}タイ{found[2]}" if _SCORES.search(around) else found[0]


def half_of_day(letter: str) -> str:
    return "午前" if letter in "Aa" else "午後"


def time_of_day(found: re.Match[str]) -> str:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > _LAST_HOUR or max(minute, second) > _LAST_MINUTE:
        return found[0]
    minutes = f"{minute}分" if minute or found[3] else ""
    return f"{hour}時{minutes}" + (f"{second}秒" if found[3] else "")


def amount(found: re.Match[str]) -> str:
    number = found[2].rstrip("0").rstrip(".") if "." in found[2] else found[2]
    return f"{number}{found[3]}{_CURRENCIES[found[1]]}"


_SPOKEN: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(?i)(?:https?://|www\.)[!-~]+", "、ユーアールエル、"),
    (r"(?a)[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
     lambda found: f"、{found[0].translate(_MAIL_SIGNS)}、"),
    (r"(?<![A-Za-z0-9])[wW]+(?![A-Za-z0-9])", "、わら"),
    (r"(?<![\d.])(-?)(\d{1,4}(?:\.\d{1,4})?)\s?°\s?F(?![A-Za-z])",
     lambda found: f"華氏{'マイナス' * bool(found[1])}{found[2]}度"),
    (r"°\s?C?(?![A-Za-z])", "度"),
    (r"(?<=度)(\d{1,2})['′](?:(\d{1,2}(?:\.\d+)?)(?:[\"″]|''|′′))?",
     lambda found: f"{found[1]}分" + (f"{found[2]}秒" if found[2] else "")),
    (r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])", lambda found: found[0].replace(",", "")),
    (r"([$¥€£₩])\s?(\d+(?:\.\d+)?)([万億兆]?)(?:-(?![\d$¥€£₩]))?", amount),
    (r"(?<![$¥€£₩\d.])(\d+(?:\.\d+)?)([万億兆]?)\s?([$€£₩])(?!\d)",
     lambda found: found[1] + found[2] + _CURRENCIES[found[3]]),
    (r"(?<=\d)¢", "セント"),
    (r"(?<=\d)\s+(?=[%℃])", ""),
    (r"(?<=\d)\((\d{1,4})\)(?=\d{4})", r"-\1-"),
    (r"\((0\d{1,4})\)\s?(?=\d{1,4}-\d{4})", r"\1-"),
    (r"(?<=\d)\s?/\s?(?=\d+\s?=)", "わる"),
    (rf"\b({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?(?=\s?\d)",
     lambda found: _MONTHS[found[1]]),
    (r"(?<![\dA-Za-z])(\d+)(?:st|nd|rd|th)(?![A-Za-z])",
     lambda found: _PAIRS["ordinals"].get(found[1], found[1])),
    (rf"(?i)(?<![A-Za-z])({'|'.join(_TITLES)})\.\s?(?=[\d\u3041-\u9fff])",
     lambda found: _TITLES[found[1].lower()]),
    (r"(?<![A-Za-z])pp?\.\s?(\d+(?:[~-]\d+)?)", r"\1ページ"),
    (r"#(?=\d)", "ナンバー"),
    (r"\(([株有財社])\)", lambda found: _PAIRS["companies"][found[1]]),
    (r"(?<=\d)ー(?=\d)", "-"),
    (r"(?<=\d)T(?=\d\d:\d\d)", " "),
    (rf"(?<![A-Za-z])([MTSHR])(\d{{1,2}})([/.])(\d{{1,2}})\3(\d{{1,2}}){_NO_DATE}",
     lambda found: f"{_ERAS[found[1]]}{found[2]}年{found[4]}月{found[5]}日"),
    (r"(?<![A-Za-z])([MTSHR])(?=\d{1,2}年)", lambda found: _ERAS[found[1]]),
    (r"(?<!\w)'(?=\d\d年)", ""),
    (r"(?<![\d/.-])(\d{4})([/.-])(\d{1,2})\2(\d{1,2})(?![\d/-]|\.\d)", date),
    (rf"(?<![\d/.])(\d{{1,2}})/(\d{{1,2}})/(\d{{4}}){_NO_DATE}", american_date),
    ((r"(?<![\d/.])(\d{1,2})[/月](\d{1,2})\s?[~-]\s?(?:(\d{1,2})/)?(\d{1,2})"
     r"(?:日|(?![\d/年月時:人個%]|\.\d))"), days),
    (r"(?<![\d.])(\d+(?:\.\d+){2,})(?:([:/])(\d{1,5}))?(?!\d|\.\d)", dotted),
    (rf"(?<![\d/.])(\d{{1,3}})/(\d{{1,4}}){_NO_DATE}(?=(.?))", slashed),
    (r"\(([日月火水木金土])(?:曜日?)?(?:[・、]?祝)?\)(?=~)", r"、\1曜日"),
    (r"\(([日月火水木金土])(?:曜日?)?(?:[・、]?祝)?\)", r"、\1曜日、"),
    ((r"(?<![A-Za-z])(?:([AP])M|([AaPp])\.[Mm]\.)\s?(?=\d{1,2}(?:時|:\d\d)?(?![\d.:]))"
     r"|(?<![A-Za-z])([ap])m\s?(?=\d{1,2}(?:時|:\d\d))"),
     lambda found: half_of_day(found[1] or found[2] or found[3])),
    (r"(?<![\d:.])(\d{1,2}(?::\d\d)?)\s?([AaPp])\.?[Mm](?:\.(?![A-Za-z0-9])|(?![A-Za-z]))",
     lambda found: half_of_day(found[2]) + found[1]),
    (r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])", time_of_day),
    (r"(午[前後]\d{1,2})(?![\d時:])", r"\1時"),
    (r"(?<![\d:])(\d+)[:対](\d+)(?![\d:])", r"\1タイ\2"),
    (r"(?<![\w々])([月火水木金土日])(?:曜日?)?[~-]([月火水木金土日])(?:曜日?)?(?![\u3400-\u9fff々])",
     r"\1曜から\2曜"),
    (r"(?<=[\w)])\^(-?)(\d+)", lambda found: power(found[1] + found[2])),
    (r"(?<=\d)[eE]\+?(-?\d+)(?![\dA-Za-z])", lambda found: f"かける10{power(found[1])}"),
    ((r"(?<=\d)\s?-\s?(?=\d+(?:\.\d+)?\s?(?:(?:[+×÷*-]\s?\d+(?:\.\d+)?\s?){0,9}=|[×÷]"
     r"|は(?:\d|[?何]|いくつ)))"), "ひく"),
    (rf"[▲△▼▽]\s?(?=\d[\d,.]*(?:{_UNIT_AFTER}|[\s、。)]|$)|\d+\.\d)", "マイナス"),
    (r"(?<=[=(+×÷])-(?=[A-Za-z](?![A-Za-z]))", "マイナス"),
    ((rf"(?<![\w)」\-])-(?=\d)|(?<=[\u3041-\u309f])-(?=\d)"
     rf"|(?<=[\u30a1-\u30ff\u3400-\u9fff々A-Za-z)」])-(?=\d[\d,.]*{_UNIT_AFTER})"
     r"|(?<=[温比差値率支益損高計])-(?=\d)"), minus),
    (r"(?<![\w)])\+(?=\d)", "プラス"),
    (r"(?<=[時分])-(?=\d{1,2}時|午[前後]\d)", "から"),
    ((rf"(?<![\d.A-Za-z-])(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)(?={_COUNTERS})"
     r"|(?<![\d.A-Za-z-])((?:19|20)\d\d)-((?:19|20)?\d\d)(?![\d-])"), from_to),
    (rf"(?<=\d)({_COUNTERS})-(?=\d+\1)", r"\1から"),
    (r"(?<![\d.A-Za-z番目地号-])(\d{1,3})-(\d{1,3})(?![\d.A-Za-z番号棟-])", score),
    # After katakana only between whole words: `ラ~メン` is drawn out.
    ((rf"(?<=[\d\u3400-\u9fff々%℃)」]){_TO}|(?<=[\u30a1-\u30fc]{{2}}[\u30a1-\u30fa]){_TO}"
     r"|(?<=[A-Za-z])~(?=[A-Za-z\d])"), "から"),
    (r"(?<=\d)([年月日時分円歳才度%番]|月曜)?~(?=[\s、。!?,.)」]|$)", r"\1から"),
    (r"(?<=\d)\s?[xX*]\s?(?=\d)", "かける"),
    (r"(?<![\d.])([2-6])([GD])(?![A-Za-z\d])",
     lambda found: _PAIRS["generations"][found[1]] + ("ジー" if found[2] == "G" else "ディー")),
    (r"(?i)(?<=\d)\s?(?!(?-i:G|M)(?![A-Za-z])|V型)("
     + "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
     + r")(?![A-Za-z]|(?<=[23])\d)", lambda found: _UNITS[found[1].lower()]),
    (r"(?<![\w&])#(?=\w)", "ハッシュタグ"),
    (r"(?<=[A-Za-z])#", "シャープ"),
    (r"(?<=[A-Za-z])\++", lambda found: "プラス" * len(found[0])),
    (r"(?<=[\w)])\s?([" + re.escape("".join(_MATHEMATICAL)) + r"])\s?(?=[\w(√])|[√∞±]",
     lambda found: _MATHEMATICAL[found[0].strip()]),
    (r"([^\w\s])\1{2,}", r"\1"),
    (r"(?<=[\u3040-\u30ff\u4e00-\u9fff])~+", "ー"),
    (r"[(){}\[\]<>「」『』【】〈〉《》〔〕\"“”`]+", "、"),
)  # fmt: skip
_RULES = tuple((re.compile(pattern), replace) for pattern, replace in _SPOKEN)


def _character(character: str) -> str:
    sign = _SIGNS.get(character)
    if sign is not None:
        return sign
    if character in _WRITTEN or _SPEAKABLE.match(character):
        return character
    plain = unicodedata.normalize("NFD", character)[0]
    return plain if plain.isascii() and plain.isalpha() else " "
