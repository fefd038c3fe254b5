"""Text as the voices of Style-Bert-VITS2 expect it: numbers in kanji, few signs."""

import html
import re
import unicodedata
from decimal import Decimal
from types import MappingProxyType

_DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "億", "兆", "京", "垓", "秭", "穣", "溝", "澗", "正", "載", "極")
_POINT = "点"
_LIMIT = 10**51
_AS_DIGITS = str.maketrans("0123456789.", f"{_DIGITS}{_POINT}")


def in_kanji(number: str) -> str:
    """Write a number that is not negative in kanji.

    Decimals are those of the number's double-precision value, as the normalisation of Style-Bert-
    VITS2 has them: 1.50 is 一点五. A number without a name is read digit by digit.
    """
    exact = Decimal(repr(float(number))) if "." in number else Decimal(number)
    if exact >= _LIMIT:
        return number.translate(_AS_DIGITS)
    whole, _, decimals = f"{exact:f}".partition(".")
    digits = whole.zfill(-(-len(whole) // 4) * 4)
    groups = [digits[begin : begin + 4] for begin in range(0, len(digits), 4)]
    named = zip(groups, reversed(_GROUPS[: len(groups)]), strict=True)
    spelled = "".join(group_in_kanji(group) + name for group, name in named if int(group))
    decimals = decimals.rstrip("0").translate(_AS_DIGITS)
    return (spelled or _DIGITS[0]) + (f"{_POINT}{decimals}" if decimals else "")


def group_in_kanji(group: str) -> str:
    """Write four digits; the digit one is left out before ten, a hundred and a thousand."""
    return "".join(
        ("" if digit == "1" and place else _DIGITS[int(digit)]) + place
        for digit, place in zip(group, reversed(_PLACES), strict=True)
        if digit != "0"
    )


# Kanji of names, and their usual form, to which Unicode's compatibility does not map them.
_VARIANT = str.maketrans(
    "﨑﨔﨟內黑圡𠮷𠮟𣘺𫝆𡈽𡌛𡶜𢛳𢌞𠝏𫞊𫞎𫞏𫝷𫝶𫟪𫟨𡧃𤋮𣳾𦥑𥔎𫝍𫝑𫝌𫝯𫞘",
    "崎欅臈内黒土吉叱橋今土野岸徳廻剣栃橋橋座座邉遠宇煕泰臼埼岡勢與學渕",
)

# They choose one of a kanji's forms.
_SELECTORS = re.compile("[\ufe00-\ufe0e\U000e0100-\U000e01ef]")

_TAG_NAMES = (
    "a|abbr|b|big|blockquote|br|center|code|div|em|font|h[1-6]|hr|html|i|img|li|mark|ol|p|pre|s"
    "|small|span|strike|strong|su[bp]|table|tbody|t[dhrt]|thead|ul?|ruby|r[bp]"
    "|speak|break|prosody|emphasis|say-as|phoneme|voice|audio|w|lang|sentence|paragraph"
    "|(?:amazon|mstts):[a-z-]+"
)
_TAG = re.compile(rf"</?({_TAG_NAMES})(?:\s[^<>]{{0,400}})?/?>", re.IGNORECASE)
_BREAK = re.compile("br|p|div|li|tr|hr|table|h[1-6]|break|sentence|paragraph", re.IGNORECASE)
_ANNOTATION = re.compile(
    r"<rt>[^<]*</rt>|<!--.{0,2000}?-->|<\?xml[^<>]*>", re.IGNORECASE | re.DOTALL
)
_ALIAS = re.compile(
    r"<sub\s[^<>]{0,200}alias=[\"']([^\"'<>]*)[\"'][^<>]{0,200}>[^<]*</sub>", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,6}|#x[0-9a-f]{2,5});", re.IGNORECASE)


def plain_text(text: str) -> str:
    """Remove the tags of HTML and SSML, and write variants of kanji in their usual form."""
    if "<" in text:
        aliased = _ALIAS.sub(r"\1", _ANNOTATION.sub("", text))
        text = _TAG.sub(lambda found: "、" if _BREAK.fullmatch(found[1]) else "", aliased)
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return _SELECTORS.sub("", text).translate(_VARIANT)


_SEPARATED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_AMOUNT = re.compile(r"([$¥£€])([0-9.]*[0-9])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_CURRENCIES = MappingProxyType({"$": "ドル", "¥": "円", "£": "ポンド", "€": "ユーロ"})

_WAVES = "~～〜"
_ELLIPSES = ("···", "・・・", "…")
_SIGNS = (
    (".", "。．\n$"),
    (",", "、，：；·・"),
    ("!", "！"),
    ("?", "？"),
    ("'", '"“”‘’（）()《》【】[]「」'),
    ("-", "\u02d7\u2010\u2012\u2013\u2014\u2015\u2043\u2212\u23af\u23e4\u2500\u2501\u2e3a\u2e3b"),
)
_MARKS = str.maketrans(
    {**{sign: plain for plain, signs in _SIGNS for sign in signs}, **dict.fromkeys(_WAVES, "ー")}
)
_UNKNOWN = re.compile(
    r"[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u3005"  # kana, kanji, 々
    r"A-Za-z\uff21-\uff3a\uff41-\uff5a"  # Latin letters, narrow and wide
    r"\u0370-\u03ff\u1f00-\u1fff"  # Greek
    r"!?…,.'-]+"
)
_SOUND_MARKS = re.compile("[\u3099\u309a]")


def normalise(text: str) -> str:
    """Reduce a text to kana, kanji, Latin and Greek letters and `. , ! ? ' -`; it may be empty."""
    plain = unicodedata.normalize("NFKC", plain_text(text))
    joined = _SEPARATED.sub(lambda found: found[0].replace(",", ""), plain)
    amounts = _AMOUNT.sub(lambda found: found[2] + _CURRENCIES[found[1]], joined)
    spelled = _NUMBER.sub(lambda found: in_kanji(found[0]), amounts)
    return _SOUND_MARKS.sub("", normalise_signs(spelled))


def normalise_signs(text: str) -> str:
    """Write signs as `. , ! ? ' -` and drop unreadable characters."""
    for ellipsis in _ELLIPSES:
        text = text.replace(ellipsis, "...")
    return _UNKNOWN.sub("", text.translate(_MARKS))
