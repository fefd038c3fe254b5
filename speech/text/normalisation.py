"""Text in the signs that voices of Style-Bert-VITS2 were trained on.

Every step is the one of the original (Style-Bert-VITS2 2.7, `nlp/japanese/normalizer.py`), even
where a person would read otherwise (a percent sign is dropped): a voice says what it has learnt.
"""

import re
import unicodedata
from types import MappingProxyType

from speech.text.numbers import in_kanji

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
    """Normalise a text as the voices of Style-Bert-VITS2 expect it.

    Returns:
        Text of kana, kanji, Latin and Greek letters and `. , ! ? ' -` alone; it may be empty.
    """
    plain = _spell_numbers(unicodedata.normalize("NFKC", text))
    return _SOUND_MARKS.sub("", normalise_signs(plain))


def normalise_signs(text: str) -> str:
    """Write signs as `. , ! ? ' -` and drop what cannot be read."""
    for ellipsis in _ELLIPSES:
        text = text.replace(ellipsis, "...")
    return _UNKNOWN.sub("", text.translate(_MARKS))


def _spell_numbers(text: str) -> str:
    joined = _SEPARATED.sub(lambda found: found[0].replace(",", ""), text)
    amounts = _AMOUNT.sub(lambda found: found[2] + _CURRENCIES[found[1]], joined)
    return _NUMBER.sub(lambda found: in_kanji(found[0]), amounts)
