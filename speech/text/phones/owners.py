"""Which word each phone of a reading belongs to."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from speech.text.phones.accents import align
from speech.text.phones.phonemes import phonemes
from speech.text.phones.symbols import PAD
from speech.text.phones.tones import tones_of_phones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from speech.text.reading import Reading


def words_of_phones(reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the word of each phone of the labels, pauses apart: its number from 0, and its text.

    Nothing is computed before the first is asked for.
    """
    known = phonemes(reading)
    spoken = (PAD, *(each.phone for each in tones_of_phones(reading.labels)), PAD)
    # The padding at both ends stands for no character.
    counts = iter(align(known.word2ph, known.phones, spoken)[1:-1])
    for number, word in enumerate(known.words):
        for _ in range(sum(islice(counts, len(word.text)))):
            yield number, word.text
