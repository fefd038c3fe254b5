"""A text cut into pieces that are spoken one after the other."""

import re
from collections.abc import Iterable, Iterator

from speech.text.reading import Reading, ReadsText

_ENDS = re.compile(
    r"(?:[。．！？!?…\r\n\u2028\u2029]+|(?:(?<![0-9.])|(?<=[0-9])(?=\.(?:\s|$)))\.+(?=\s|$))"
    r"[」』）)】〉》\"”’'\s]*"
)
_BREATHS = re.compile(r"[、，,；;：:・]\s*|\s+")
_SHORTEST = 8
_LONGEST = 120
_MOST_PHONES = 250
# The synthesizer computes a piece without a pause, and others wait for it. So what has no words is
# cut sooner than a sentence, such as a number whose digits are read one by one or a kana that is
# repeated, but not below the 16 digits that are read so.
_MOST_PHONES_OF_RUNS = 120
_FEWEST_CHARACTERS = 10  # different ones in a text of words; there are as many digits


def split_sentences(text: str) -> list[str]:
    """Cut a text after its sentences.

    Short sentences go together with the next: a voice speaks one syllable badly when it is alone.
    Sentences that nobody can say in one breath are cut at a comma, or wherever they are too long.

    Returns:
        Pieces of 1 to 120 characters that make up the text, but for white space at their ends.
    """
    pieces: list[str] = []
    for sentence in _sentences(text):
        for piece in _breaths(sentence):
            if pieces and len(pieces[-1]) < _SHORTEST and len(pieces[-1] + piece) <= _LONGEST:
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return [piece.strip() for piece in pieces if piece.strip()]


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for end in _ENDS.finditer(text):
        yield text[begin : end.end()]
        begin = end.end()
    yield text[begin:]


def _breaths(sentence: str) -> Iterator[str]:
    """Cut a long sentence at the last comma that leaves a piece short enough."""
    while len(sentence) > _LONGEST:
        commas = [found.end() for found in _BREATHS.finditer(sentence, 0, _LONGEST)]
        cut = commas[-1] if commas else _LONGEST
        yield sentence[:cut]
        sentence = sentence[cut:]
    if sentence:
        yield sentence


def read_sentences(reader: ReadsText, sentences: Iterable[str]) -> Iterator[Reading]:
    """Read sentences, in halves where they take longer to say than anybody expects.

    Returns:
        Readings of about 250 phones at most, of 120 where the same few characters are repeated, so
        that each is spoken within seconds.
    """
    for sentence in sentences:
        reading = reader.read(sentence)
        middle = len(sentence) // 2
        is_run = len(set(sentence)) <= _FEWEST_CHARACTERS
        most = _MOST_PHONES_OF_RUNS if is_run else _MOST_PHONES
        if len(reading.labels) <= most or middle == 0:
            yield reading
        else:
            yield from read_sentences(reader, (sentence[:middle], sentence[middle:]))
