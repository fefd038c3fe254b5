"""Numbers in kanji, as Japanese people write them out."""

from __future__ import annotations

from decimal import Decimal

_DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "億", "兆", "京", "垓", "秭", "穣", "溝", "澗", "正", "載", "極")
_POINT = "点"
_LIMIT = 10**51
_AS_DIGITS = str.maketrans("0123456789.", f"{_DIGITS}{_POINT}")


def in_kanji(number: str) -> str:
    """Write a number that is not negative in kanji.

    Decimals are those of the number's double-precision value, as the normalisation of
    Style-Bert-VITS2 has them: 1.50 is 一点五. A number for which there are no words is read digit
    by digit.

    Args:
        number: digits, perhaps with a decimal point between them.
    """
    exact = Decimal(repr(float(number))) if "." in number else Decimal(number)
    if exact >= _LIMIT:
        return number.translate(_AS_DIGITS)
    whole, _, decimals = f"{exact:f}".partition(".")
    spelled = _whole_in_kanji(int(whole))
    decimals = decimals.rstrip("0")
    return f"{spelled}{_POINT}{decimals.translate(_AS_DIGITS)}" if decimals else spelled


def _whole_in_kanji(number: int) -> str:
    if number == 0:
        return _DIGITS[0]
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 4) * 4)
    groups = [digits[begin : begin + 4] for begin in range(0, len(digits), 4)]
    names = reversed(_GROUPS[: len(groups)])
    return "".join(
        _group_in_kanji(int(group)) + name
        for group, name in zip(groups, names, strict=True)
        if int(group)
    )


def _group_in_kanji(number: int) -> str:
    """Write 1 to 9999; the digit one is left out before ten, a hundred and a thousand."""
    parts = []
    for place in (3, 2, 1, 0):
        digit = number // 10**place % 10
        if digit:
            parts.append(("" if digit == 1 and place else _DIGITS[digit]) + _PLACES[place])
    return "".join(parts)
