"""The phones that voices of Style-Bert-VITS2 know, and the numbers that they know them by.

The order is the format's (Style-Bert-VITS2, `nlp/symbols.py`): the padding, the phones of Chinese,
Japanese and English together in the order of their code points, and the signs.
"""

from collections.abc import Mapping
from types import MappingProxyType

PAD = "_"
PUNCTUATION = ("!", "?", "…", ",", ".", "'", "-")
UNREADABLE = "'"
"""Stands for a character that nobody can read."""

_PHONES = """
    AA E EE En N OO V a a: aa ae ah ai an ang ao aw ay b by c ch d dh dy e e: eh ei en eng er ey f g
    gy h hh hy i i0 i: ia ian iang iao ie ih in ing iong ir iu iy j jh k ky l m my n ng ny o o: ong
    ou ow oy p py q r ry s sh t th ts ty u u: ua uai uan uang uh ui un uo uw v van ve vn w x y z zh
    zy
"""

SYMBOLS = (PAD, *_PHONES.split(), *PUNCTUATION, "SP", "UNK")

IDS: Mapping[str, int] = MappingProxyType({symbol: id_ for id_, symbol in enumerate(SYMBOLS)})

JAPANESE = 1
"""The number of the language."""

FIRST_JAPANESE_TONE = 6
"""The number of Japanese's low tone; Chinese has those before it."""
