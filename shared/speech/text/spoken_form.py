"""The spoken form of chat texts: dates, amounts, units, signs, emoji.

It serves the built-in engine. Voices of Style-Bert-VITS2 need their own normalisation, to the
letter (see shared.speech.text.normalisation).
"""

import re
import unicodedata
from collections.abc import Callable


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_ROMAN = str.maketrans(
    {chr(0x2160 + number): str(number + 1) for number in range(12)}
    | {chr(0x2170 + number): str(number + 1) for number in range(12)}
)
_UNUSUAL = str.maketrans(dict(zip("〜～−‐–—―⁄’‘〇\n\r\t", "~~---、、/''○。。 ", strict=True)))
_MATHEMATICAL = _pairs("""
    × かける  ÷ わる  ± プラスマイナス  = イコール  ≠ ノットイコール  ≒ ニアリーイコール
    + プラス  √ ルート  ∞ 無限大  < 小なり  > 大なり
""")
_SIGNS = {
    **_pairs("& アンド  @ アット  〒 郵便番号  ‰ パーミル  © コピーライト  ♂ オス  ♀ メス"),
    **dict.fromkeys("○◯", "まる"),
    **dict.fromkeys("→←⇒|…・•", "、"),
    **dict.fromkeys("®™*", ""),
    "_": " ",
}
_UNITS = _pairs("""
    km/h キロメートル毎時  m/s メートル毎秒  kbps キロビーピーエス  mbps メガビーピーエス
    gbps ギガビーピーエス  tb テラバイト  gb ギガバイト  mb メガバイト  kb キロバイト
    ghz ギガヘルツ  mhz メガヘルツ  khz キロヘルツ  hz ヘルツ  km キロメートル
    cm センチメートル  mm ミリメートル  m2 平方メートル  m3 立方メートル  m メートル
    kg キログラム  mg ミリグラム  g グラム  kcal キロカロリー  cal カロリー  ml ミリリットル
    dl デシリットル  l リットル  kw キロワット  w ワット  mah ミリアンペアアワー  v ボルト
    ms ミリ秒  db デシベル  fps エフピーエス  px ピクセル  pt ポイント  bit ビット
""")
_CURRENCIES = _pairs("$ ドル  ¥ 円  € ユーロ  £ ポンド  ₩ ウォン")
_EMOJI_BY_NAME = _pairs("""
    にっこり 😀😃😄😊🙂  大笑い 😂🤣😆  汗 😅💦  目がハート 😍  ハート 🥰❤♥💕💖
    大泣き 😭  涙 😢  うるうる 🥺  怒り 😡  びっくり 😱  すやすや 😴  うーん 🤔
    いいね 👍  よくないね 👎  ぱちぱち 👏  お願いします 🙏  ぺこり 🙇  がんばる 💪
    バイバイ 👋  おめでとう 🎉  ケーキ 🎂  キラキラ ✨  星 ⭐🌟  炎 🔥  百点 💯  猫 🐱
    犬 🐶  桜 🌸  寿司 🍣  ビール 🍺  晴れ ☀  雨 ☔  雪だるま ⛄
""")
_EMOJI = {emoji: name for name, signs in _EMOJI_BY_NAME.items() for emoji in signs}
_MOST_EMOJI = 5
_ANY_EMOJI = "絵文字"

_URL = re.compile(r"(?:https?://|www\.)[!-~]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_LAUGHTER = re.compile(r"(?<![A-Za-z0-9])[wW]+(?![A-Za-z0-9])")
_SEPARATED = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
_AMOUNT = re.compile(r"([$¥€£₩])\s?(\d+(?:\.\d+)?)([万億兆]?)")
_DATE = re.compile(r"(?<![\d/.-])(\d{4})([/.-])(\d{1,2})\2(\d{1,2})(?![\d/.-])")
_SLASH = re.compile(r"(?<![\d/.])(\d{1,3})/(\d{1,4})(?![\d/.])(?=(.?))")
_TIME = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])")
_RATIO = re.compile(r"(?<![\d:])(\d+):(\d+)(?![\d:])")
_RANGE = re.compile(r"(?<=[\d年月日時分円人%度])~(?=\d)")
_MINUS = re.compile(r"(?<![\w)])-(?=\d)")
_POWER = re.compile(r"(?<=[\w)])\^(\d+)")
_TIMES = re.compile(r"(?<=\d)\s?[xX*]\s?(?=\d)")
_UNIT = re.compile(
    r"(?<=\d)\s?("
    + "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
    + r")(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_MATHS = re.compile(
    r"(?<=[\w)])\s?([" + re.escape("".join(_MATHEMATICAL)) + r"])\s?(?=[\w(√])|[√∞±]"
)
_DEGREES = re.compile(r"°\s?C?(?![A-Za-z])")
_WEEKDAY = re.compile(r"\(([日月火水木金土])(?:曜日?)?(?:[・、]?祝)?\)")
_PAUSES = re.compile(r"(?:[、\s]*、[、\s]*)+")
_TAG = re.compile(r"(?<![\w&])#(?=\w)")
_SHARP = re.compile(r"(?<=[A-Za-z])#")
_PLUSES = re.compile(r"(?<=[A-Za-z])\++")
_MANY = re.compile(r"([^\w\s])\1{2,}")
_DRAWN = re.compile(r"(?<=[\u3040-\u30ff\u4e00-\u9fff])~+")
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad]")
_BRACKETS = re.compile(r"[(){}\[\]<>「」『』【】〈〉《》〔〕\"“”`]+")
_SPEAKABLE = re.compile(r"[A-Za-z0-9\u0370-\u03ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff々%℃]")
_WRITTEN = frozenset("、。!?,.'ー-/:% 々℃")

_LAST_MONTH, _LAST_DAY, _LAST_HOUR, _LAST_MINUTE = 12, 31, 29, 59
_LARGEST_DENOMINATOR = 10


def write_out(text: str) -> str:
    visible = _HIDDEN.sub("", text.translate(_ROMAN))
    spoken = unicodedata.normalize("NFKC", visible.translate(_UNUSUAL)).translate(_UNUSUAL)
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


def _date(found: re.Match[str]) -> str:
    year, month, day = int(found[1]), int(found[3]), int(found[4])
    return f"{year}年{month}月{day}日" if _is_day(month, day) else found[0]


def _slash(found: re.Match[str]) -> str:
    """Read `1/2` as a fraction and `11/22` as a day, as far as one can tell."""
    first, second, after = int(found[1]), int(found[2]), found[3]
    is_fraction = 0 < first < second <= _LARGEST_DENOMINATOR and after not in set("(にまか")
    if _is_day(first, second) and not is_fraction:
        return f"{first}月{second}日"
    return f"{second}分の{first}"


def _is_day(month: int, day: int) -> bool:
    return 1 <= month <= _LAST_MONTH and 1 <= day <= _LAST_DAY


def _time(found: re.Match[str]) -> str:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > _LAST_HOUR or max(minute, second) > _LAST_MINUTE:
        return found[0]
    minutes = f"{minute}分" if minute or found[3] else ""
    return f"{hour}時{minutes}" + (f"{second}秒" if found[3] else "")


def _amount(found: re.Match[str]) -> str:
    number = found[2].rstrip("0").rstrip(".") if "." in found[2] else found[2]
    return f"{number}{found[3]}{_CURRENCIES[found[1]]}"


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_URL, "、ユーアールエル、"),
    (_MAIL, "、メールアドレス、"),
    (_LAUGHTER, "、わら"),
    (_WEEKDAY, r"、\1曜日、"),
    (_DEGREES, "度"),
    (_SEPARATED, lambda found: found[0].replace(",", "")),
    (_AMOUNT, _amount),
    (_DATE, _date),
    (_SLASH, _slash),
    (_TIME, _time),
    (_RATIO, r"\1対\2"),
    (_RANGE, "から"),
    (_MINUS, "マイナス"),
    (_POWER, r"の\1乗"),
    (_TIMES, "かける"),
    (_UNIT, lambda found: _UNITS[found[1].lower()]),
    (_TAG, "ハッシュタグ"),
    (_SHARP, "シャープ"),
    (_PLUSES, lambda found: "プラス" * len(found[0])),
    (_MATHS, lambda found: _MATHEMATICAL[found[0].strip()]),
    (_MANY, r"\1"),
    (_DRAWN, "ー"),
    (_BRACKETS, "、"),
)


def _character(character: str) -> str:
    sign = _SIGNS.get(character)
    if sign is not None:
        return sign
    if character in _WRITTEN or _SPEAKABLE.match(character):
        return character
    plain = unicodedata.normalize("NFD", character)[0]
    return plain if plain.isascii() and plain.isalpha() else " "
