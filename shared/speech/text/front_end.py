"""The words of a Japanese text, their readings and pitch: Open JTalk's front end."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

_DEVOICED = "’"
_LONG = "ー"
_MARKS = ("、", "？", "！")


@dataclass(frozen=True)
class Word:
    """One word as Open JTalk finds it; a reading of `、` stands for no pronunciation."""

    text: str
    reading: str
    part_of_speech: str
    chained: bool


@dataclass(frozen=True)
class Reading:
    """The words of a text and its full-context labels; none without words.

    The labels' format: https://hts.sp.nitech.ac.jp, the Japanese demo's `lab_format.pdf`.
    """

    words: tuple[Word, ...]
    labels: tuple[str, ...]


class JapaneseReader(Protocol):
    def read(self, text: str) -> Reading: ...


class TextReader(JapaneseReader, Protocol):
    def write(self, text: str) -> str:
        """Write the English words of a text in katakana."""

    def put_own_words(self, text: str) -> str:
        """Put the pronunciation for words of users that no later step would leave as they are."""


class Reader:
    """Reads Japanese text with Open JTalk; one instance serves any number of threads.

    Its package (500 ms, 90 MB) is loaded by the first Reader. A user dictionary goes before the
    built-in one.
    """

    def __init__(self, user_dictionary: Path | None = None) -> None:
        # The package starts threads when it is imported, which would not survive a fork.
        import pyopenjtalk  # noqa: PLC0415
        from pyopenjtalk.openjtalk import OpenJTalk  # noqa: PLC0415

        self._package: Any = pyopenjtalk
        user = str(user_dictionary).encode() if user_dictionary else b""
        self._dictionary = OpenJTalk(dn_mecab=pyopenjtalk.OPEN_JTALK_DICT_DIR, userdic=user)

    def read(self, text: str) -> Reading:
        """Find the words of a few sentences and their readings; takes about 1 ms for each."""
        features = self._package.run_frontend(text, jtalk=self._dictionary)
        spoken = speakable(features)
        labels = self._package.make_label(spoken, jtalk=self._dictionary) if spoken else ()
        words = tuple(
            Word(
                feature["string"],
                feature["pron"].replace(_DEVOICED, ""),
                feature["pos"],
                feature["chain_flag"] == 1,
            )
            for feature in features
        )
        return Reading(words, tuple(labels))


def speakable(features: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out features without a label: long vowels after nothing, marks before every word.

    Open JTalk leaves them out itself, but writes a line to stderr, a service's log, for each.
    """
    spoken: list[dict[str, Any]] = []
    is_after_mark = True
    for feature in features:
        sound = feature["pron"].lstrip(_LONG) if is_after_mark else feature["pron"]
        if not sound or (sound in _MARKS and not spoken):
            continue
        is_after_mark = sound in _MARKS
        spoken.append(feature | {"pron": sound})
    return spoken


_LIST = Path(__file__).with_name("english_words.tsv")
_WORD = re.compile(r"([A-Za-z]+(?:['-][A-Za-z]+)*)(\d*)")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VOWELS = frozenset("aeiouy")
_UNKNOWN = "フィラー"  # the part of speech that Open JTalk gives to what it has to spell
_LONGEST_ACRONYM = 5
_LONGEST_WORD = 40
_KANA_PER_LETTER = 1.5  # more than any word has that is not spelled
_ARTICLE = "ア"
_REMEMBERED = 4_096

_SPELLED = """
    エー ビー シー ディー イー エフ ジー エイチ アイ ジェー ケー エル エム エヌ オー ピー キュー
    アール エス ティー ユー ブイ ダブリュー エックス ワイ ゼット
"""
_LETTERS = dict(zip("abcdefghijklmnopqrstuvwxyz", _SPELLED.split(), strict=True))


def read_words(path: Path = _LIST) -> dict[str, str]:
    """Read a list of English words, in lower case, and their katakana, separated by tabulators."""
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line)


class EnglishReader:
    """Writes English words in katakana; any number of threads use it at once."""

    def __init__(
        self,
        reader: JapaneseReader,
        words: Mapping[str, str],
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> None:
        import kanalizer  # noqa: PLC0415 - loads its network

        self._network: Any = kanalizer
        self._reader = reader
        self._words = words
        self._is_own = is_own
        self._remember = lru_cache(_REMEMBERED)(self._write)

    def write(self, text: str) -> str:
        """Write the English words of a text in katakana, except those that the dictionary knows."""

        def write_found(found: re.Match[str]) -> str:
            if self._is_own(found[0]) or self._is_own(found[1]):
                return found[0]
            return self._remember(found[1], found[2])

        return _WORD.sub(write_found, text)

    def _write(self, word: str, number: str) -> str:
        """Leave a word of the dictionary as it is, because that knows the accent, too."""
        if number and self._look_up(word + number):
            return word + number
        if len(word) > 1 and word.lower() not in self._words and self._look_up(word):
            return word + number
        return self._pronounce(word) + number

    def _look_up(self, word: str) -> str | None:
        if (
            len(word) > _LONGEST_WORD
        ):  # Open JTalk's time for one grows with the square of its length
            return None
        words = self._reader.read(word).words
        if len(words) != 1 or words[0].part_of_speech == _UNKNOWN:
            return None
        is_spelled = len(words[0].reading) > _KANA_PER_LETTER * len(word)
        return None if is_spelled and len(word) > _LONGEST_ACRONYM else words[0].reading

    def _pronounce(self, word: str) -> str:
        if len(word) == 1:
            return _ARTICLE if word == "a" else _spell(word)
        known = self._words.get(word.lower()) or self._look_up(word)
        if known is not None:
            return known
        parts = [
            part for piece in word.replace("'", "").split("-") for part in _PARTS.findall(piece)
        ]
        if len(parts) > 1 and min(len(part) for part in parts) > 1:
            return "".join(self._pronounce(part) for part in parts)
        letters = "".join(parts)
        is_acronym = letters.isupper() and len(letters) <= _LONGEST_ACRONYM
        if is_acronym or len(letters) > _LONGEST_WORD or not _VOWELS & set(letters.lower()):
            return _spell(letters)
        return str(self._network.convert(letters.lower(), on_incomplete="ignore"))


def _spell(word: str) -> str:
    return "".join(_LETTERS[letter] for letter in word.lower())


class FrontEnd:
    """Reads Japanese, and English words in it; loads its packages (500 ms, 100 MB) when used."""

    def __init__(
        self,
        make_reader: Callable[[], JapaneseReader] = Reader,
        is_own: Callable[[str], bool] = lambda _: False,
        put_own_words: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.put_own_words = put_own_words
        self._make_reader = make_reader
        self._is_own = is_own
        self._reader: JapaneseReader | None = None
        self._english: EnglishReader | None = None
        self._loading = Lock()

    def read(self, text: str) -> Reading:
        return self._loaded_reader().read(text)

    def write(self, text: str) -> str:
        reader = self._loaded_reader()
        with self._loading:
            if self._english is None:
                self._english = EnglishReader(reader, read_words(), self._is_own)
        return self._english.write(text)

    def _loaded_reader(self) -> JapaneseReader:
        with self._loading:
            if self._reader is None:
                self._reader = self._make_reader()
            return self._reader


_SIGNS = r"[。．！？!?…\r\n\u2028\u2029]+"
_CLOSING = r"」』）)】〉》\"”’'"
_ENDS = re.compile(
    rf"(?:{_SIGNS}|(?:(?<![0-9.])|(?<=[0-9])(?=\.(?:\s|$)))\.+(?=\s|$))[{_CLOSING}\s]*"
)
_ABBREVIATED = r"(?<!\b[A-Z\d])(?<!\bMr|\bDr|\bMs|\bSt|\bvs)(?<!\bMrs|\be\.g|\bi\.e)"
_ENDS_SO_FAR = re.compile(rf"{_SIGNS}[{_CLOSING}]*|{_ABBREVIATED}\.(?=\s)")
_BREATHS = re.compile(r"[、，,；;：:・]\s*|\s+")
_SHORTEST = 8
_LONGEST = 120
_MOST_PHONES = 250
# The synthesizer computes a piece without a pause, and others wait for it. So what has no words is
# cut sooner, such as a number of digits, and a kana that is repeated still sooner.
_MOST_PHONES_OF_RUNS = 120
_MOST_PHONES_OF_FEW = 40
_FEWEST_CHARACTERS = 10  # different ones in a text of words; there are as many digits
_FEW_CHARACTERS = 2

LONGEST_WAITING = 400
"""After so many characters without an end a text is spoken up to its last comma or space."""


def split_sentences(text: str) -> list[str]:
    """Cut a text after its sentences, into pieces of 1 to 120 characters.

    Short sentences are joined with the next: a voice speaks a single syllable badly.
    """
    pieces: list[str] = []
    for piece in _cut(text, _ENDS, _LONGEST):
        if pieces and len(pieces[-1]) < _SHORTEST and len(pieces[-1] + piece) <= _LONGEST:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return [piece.strip() for piece in pieces if piece.strip()]


class SentenceSplitter:
    """Cuts a text that comes in pieces; each sentence leaves as soon as it is whole."""

    def __init__(self) -> None:
        self._waiting = ""

    def push(self, text: str) -> list[str]:
        *whole, self._waiting = _cut(self._waiting + text, _ENDS_SO_FAR, LONGEST_WAITING)
        return [each for each in whole if each.strip()]

    def finish(self) -> list[str]:
        rest, self._waiting = self._waiting, ""
        return [rest] if rest.strip() else []


def _cut(text: str, ends: re.Pattern[str], longest: int) -> Iterator[str]:
    """Cut a text at its ends, and a long sentence at the last comma that leaves it short enough."""
    begin = 0
    for end in (*(found.end() for found in ends.finditer(text)), len(text)):
        while end - begin > longest:
            commas = [found.end() for found in _BREATHS.finditer(text, begin, begin + longest)]
            cut = commas[-1] if commas else begin + longest
            yield text[begin:cut]
            begin = cut
        yield text[begin:end]
        begin = end


def read_text(front_end: TextReader, text: str) -> list[Reading]:
    return list(read_sentences(front_end, split_sentences(front_end.write(text))))


def read_sentences(reader: JapaneseReader, sentences: Iterable[str]) -> Iterator[Reading]:
    """Read sentences, in halves where they take long: 250 phones at most, 40 to 120 of repeats."""
    for sentence in sentences:
        reading = reader.read(sentence)
        middle = len(sentence) // 2
        different = len(set(sentence))
        most = _MOST_PHONES if different > _FEWEST_CHARACTERS else _MOST_PHONES_OF_RUNS
        if different <= _FEW_CHARACTERS and not sentence.isdecimal():
            most = _MOST_PHONES_OF_FEW
        if len(reading.labels) <= most or middle == 0:
            yield reading
        else:
            yield from read_sentences(reader, (sentence[:middle], sentence[middle:]))
