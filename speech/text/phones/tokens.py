"""The numbers by which a text goes into a network: phones, tones, and characters for BERT."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.process.quoting import printable
from shared.process.reading import read_at_most
from speech.text.phones.phonemes import Phonemes
from speech.text.phones.symbols import FIRST_JAPANESE_TONE, IDS, JAPANESE

MAX_VOCABULARY_BYTES = 4 << 20
"""The largest vocabulary that is read; those of BERTs have a quarter of a megabyte."""

_BLANK = 0
_CLS, _SEP, _UNK = "[CLS]", "[SEP]", "[UNK]"


@dataclass(frozen=True)
class VoiceInputs:
    """What a voice of Style-Bert-VITS2 takes for a text of P phones.

    Attributes:
        phones: P numbers of phones (2 P + 1 with blanks).
        tones: likewise, of tones.
        languages: likewise, of languages.
        word2ph: how many of these belong to each character.
    """

    phones: tuple[int, ...]
    tones: tuple[int, ...]
    languages: tuple[int, ...]
    word2ph: tuple[int, ...]


def voice_inputs(phonemes: Phonemes, *, add_blank: bool) -> VoiceInputs:
    """Number the phones of a text.

    Args:
        phonemes: the text.
        add_blank: whether the voice was trained with a blank around every phone.
    """
    phones = tuple(IDS[phone] for phone in phonemes.phones)
    tones = tuple(FIRST_JAPANESE_TONE + tone for tone in phonemes.tones)
    languages = (JAPANESE,) * len(phones)
    if not add_blank:
        return VoiceInputs(phones, tones, languages, phonemes.word2ph)
    first, *others = (2 * count for count in phonemes.word2ph)
    return VoiceInputs(
        _interspersed(phones),
        _interspersed(tones),
        _interspersed(languages),
        (first + 1, *others),
    )


def _interspersed(numbers: Sequence[int]) -> tuple[int, ...]:
    result = [_BLANK] * (2 * len(numbers) + 1)
    result[1::2] = numbers
    return tuple(result)


class VocabularyError(ValueError):
    """A file that is not the vocabulary of a character-level BERT; one sentence."""


class Vocabulary:
    """The characters that a character-level BERT knows.

    Attributes:
        ids: the number of each token.

    Args:
        ids: the number of each token, `[CLS]`, `[SEP]` and `[UNK]` among them.

    Raises:
        VocabularyError: one of these is missing.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        for token in (_CLS, _SEP, _UNK):
            if token not in ids:
                raise VocabularyError(f"vocabulary: expected the token {token}, found none.")
        self.ids = ids

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Read a `vocab.txt`: one token in each line, numbered from 0.

        Raises:
            VocabularyError: it cannot be read, or is no vocabulary.
        """
        try:
            text = read_at_most(path, MAX_VOCABULARY_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VocabularyError(
                f"{printable(path.name)}: expected a vocabulary in UTF-8, found: {error}."
            ) from error
        return cls.of_tokens(text.removesuffix("\n").split("\n"))

    @classmethod
    def of_tokens(cls, tokens: Iterable[str]) -> "Vocabulary":
        """Number tokens from 0."""
        return cls({token: id_ for id_, token in enumerate(tokens)})

    def encode(self, text: str) -> tuple[int, ...]:
        """Number the characters of a text: one each, and the marks of its two ends."""
        unknown = self.ids[_UNK]
        characters = (unicodedata.normalize("NFKC", character) for character in text)
        ids = (self.ids.get(character, unknown) for character in characters)
        return (self.ids[_CLS], *ids, self.ids[_SEP])
