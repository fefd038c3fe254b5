"""The morae of Japanese: what katakana sound like, in the phones of Open JTalk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

_VOWELS = "aiueo"
_NONE = "-"

# Consonant, then the kana before a, i, u, e and o. Where kana sound alike, the later row wins when
# a mora is written as kana again.
_ROWS = (
    ("", "ァ ィ ゥ ェ ォ"),
    ("", "- ヰ - ヱ ヲ"),
    ("", "ア イ ウ エ オ"),
    ("k", "- - - ヶ -"),
    ("k", "カ キ ク ケ コ"),
    ("ky", "キャ - キュ キェ キョ"),
    ("kw", "クヮ - - - -"),
    ("g", "ガ ギ グ ゲ ゴ"),
    ("gy", "ギャ - ギュ ギェ ギョ"),
    ("gw", "グヮ - - - -"),
    ("s", "サ スィ ス セ ソ"),
    ("sh", "シャ シ シュ シェ ショ"),
    ("z", "- - ヅ - -"),
    ("z", "ザ ズィ ズ ゼ ゾ"),
    ("j", "- ヂ - - -"),
    ("j", "ジャ ジ ジュ ジェ ジョ"),
    ("t", "タ ティ トゥ テ ト"),
    ("ty", "テャ - テュ - テョ"),
    ("ch", "チャ チ チュ チェ チョ"),
    ("ts", "ツァ ツィ ツ ツェ ツォ"),
    ("d", "ダ ディ ドゥ デ ド"),
    ("dy", "デャ - デュ - デョ"),
    ("n", "ナ ニ ヌ ネ ノ"),
    ("ny", "ニャ - ニュ ニェ ニョ"),
    ("h", "ハ ヒ - ヘ ホ"),
    ("hy", "ヒャ - ヒュ ヒェ ヒョ"),
    ("f", "ファ フィ フ フェ フォ"),
    ("b", "バ ビ ブ ベ ボ"),
    ("by", "ヴャ - ヴュ - ヴョ"),
    ("by", "ビャ - ビュ ビェ ビョ"),
    ("p", "パ ピ プ ペ ポ"),
    ("py", "ピャ - ピュ ピェ ピョ"),
    ("m", "マ ミ ム メ モ"),
    ("my", "ミャ - ミュ ミェ ミョ"),
    ("y", "ャ - ュ - ョ"),
    ("y", "ヤ - ユ イェ ヨ"),
    ("r", "ラ リ ル レ ロ"),
    ("ry", "リャ - リュ リェ リョ"),
    ("w", "ヮ - - - -"),
    ("w", "ワ ウィ - ウェ ウォ"),
    ("v", "ヴァ ヴィ ヴ ヴェ ヴォ"),
)

LONG = "ー"
_LONGEST_MORA = 2

_PARTS: Mapping[str, tuple[str, str]] = MappingProxyType({"kw": ("k", "w"), "gw": ("g", "w")})


@dataclass(frozen=True)
class Sound:
    """The sound of one mora: a consonant or None, and a vowel, `N` or `q`."""

    consonant: str | None
    vowel: str

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones, in order; クヮ and グヮ have three, because no voice knows kw and gw."""
        if self.consonant is None:
            return (self.vowel,)
        return (*_PARTS.get(self.consonant, (self.consonant,)), self.vowel)


def _sounds() -> Iterator[tuple[str, Sound]]:
    yield "ン", Sound(None, "N")
    yield "ッ", Sound(None, "q")
    for consonant, row in _ROWS:
        for vowel, kana in zip(_VOWELS, row.split(), strict=True):
            if kana != _NONE:
                yield kana, Sound(consonant or None, vowel)


SOUNDS: Mapping[str, Sound] = MappingProxyType(dict(_sounds()))
"""The sound of each mora, by its katakana."""

KANA: Mapping[Sound, str] = MappingProxyType({sound: kana for kana, sound in SOUNDS.items()})
"""How each sound is written."""

SPEAKABLE_VOWELS = frozenset(_VOWELS)


def split_morae(kana: str) -> list[str]:
    """Split katakana into morae; what is no mora, such as `ー` or a sign, stays a piece of its own.

    >>> split_morae("キャット")
    ['キャ', 'ッ', 'ト']
    """
    morae = []
    position = 0
    while position < len(kana):
        longest = kana[position : position + _LONGEST_MORA]
        mora = longest if longest in SOUNDS else kana[position]
        morae.append(mora)
        position += len(mora)
    return morae
