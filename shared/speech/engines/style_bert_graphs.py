"""The two graphs of Style-Bert-VITS2: BERT, which characters share, and the synthesis."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.runtime.process import read_at_most
from shared.runtime.quoting import printable, quoted
from shared.speech.engines.aivmx import STYLE_SIZE, StyleBertVoice
from shared.speech.graphs.bundle import Graph, GraphContract, TensorContract
from shared.speech.graphs.sessions import GraphSession
from shared.speech.signal.sound import Samples
from shared.speech.text.phonemes import FIRST_JAPANESE_TONE, IDS, JAPANESE, Phonemes

MAX_VOCABULARY_BYTES = 4 << 20  # those of BERTs have a quarter of a megabyte

_BLANK = 0
_CLS, _SEP, _UNK = "[CLS]", "[SEP]", "[UNK]"


class SynthesisInputs(NamedTuple):
    phones: list[int]
    tones: list[int]
    languages: list[int]
    word2ph: list[int]


def synthesis_inputs(phonemes: Phonemes, *, add_blank: bool) -> SynthesisInputs:
    """Number the phones of a text; a blank stands between each two, and at both ends."""
    phones = [IDS[phone] for phone in phonemes.phones]
    tones = [FIRST_JAPANESE_TONE + tone for tone in phonemes.tones]
    plain = SynthesisInputs(phones, tones, [JAPANESE] * len(phones), list(phonemes.word2ph))
    if not add_blank:
        return plain
    first, *others = (2 * count for count in phonemes.word2ph)
    rows = []
    for numbers in plain[:3]:
        row = [_BLANK] * (2 * len(phones) + 1)
        row[1::2] = numbers
        rows.append(row)
    return SynthesisInputs(rows[0], rows[1], rows[2], [first + 1, *others])


class VocabularyError(ValueError):
    """A file that is not the vocabulary of a character-level BERT; one sentence."""


class Vocabulary:
    def __init__(self, ids: Mapping[str, int]) -> None:
        for token in (_CLS, _SEP, _UNK):
            if token not in ids:
                raise VocabularyError(f"vocabulary: expected the token {token}, found none.")
        self.ids = ids

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Read a `vocab.txt`: one token in each line, numbered from 0."""
        try:
            text = read_at_most(path, MAX_VOCABULARY_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VocabularyError(
                f"{printable(path.name)}: expected a vocabulary in UTF-8, found: {error}."
            ) from error
        return cls.of_tokens(text.removesuffix("\n").split("\n"))

    @classmethod
    def of_tokens(cls, tokens: Iterable[str]) -> "Vocabulary":
        return cls({token: id_ for id_, token in enumerate(tokens)})

    def encode(self, text: str) -> tuple[int, ...]:
        """Number the characters of a text: one each, and the marks of its two ends."""
        unknown = self.ids[_UNK]
        characters = (unicodedata.normalize("NFKC", character) for character in text)
        ids = (self.ids.get(character, unknown) for character in characters)
        return (self.ids[_CLS], *ids, self.ids[_SEP])


FEATURES = 1_024
OUTPUT = "output"

BERT_CONTRACT = GraphContract(
    inputs=(
        TensorContract("input_ids", [("batch", "tokens")], "int64"),
        TensorContract("attention_mask", [("batch", "tokens")], "int64"),
    ),
    outputs=(TensorContract(OUTPUT, [("tokens", FEATURES)]),),
)

VOCABULARY = "vocabulary"
"""The entry of the graph's metadata that holds the vocabulary: one token in each line."""


def read_vocabulary(metadata: Mapping[str, str]) -> Vocabulary:
    if VOCABULARY not in metadata:
        raise VocabularyError(f"expected {quoted(VOCABULARY)} in the model's metadata, found none.")
    return Vocabulary.of_tokens(metadata[VOCABULARY].split("\n"))


class BertEncoder:
    def __init__(self, session: GraphSession, vocabulary: Vocabulary) -> None:
        self._session = session
        self._vocabulary = vocabulary

    def _inputs(self, text: str) -> dict[str, NDArray[np.int64]]:
        ids = np.array([self._vocabulary.encode(text)], np.int64)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def encode(self, text: str) -> NDArray[np.float32]:
        return self._session.run(self._inputs(text), OUTPUT)

    def try_out(self, graph: Graph) -> None:
        features, tokens = self._session.try_out(self._inputs("あ"), OUTPUT), len("[あ]")
        if features.shape != (tokens, FEATURES):
            raise BundleError(
                f"{graph.file}: output 'output': expected float32 [{tokens}, {FEATURES}] for"
                f" {tokens} tokens, found {list(features.shape)}."
            )


_PHONES = (("batch", "phones"),)
_ONE = (("batch",),)
SYNTHESIS_CONTRACT = GraphContract(
    inputs=(
        TensorContract("x_tst", _PHONES, "int64"),
        TensorContract("x_tst_lengths", _ONE, "int64"),
        TensorContract("sid", _ONE, "int64"),
        TensorContract("tones", _PHONES, "int64"),
        TensorContract("language", _PHONES, "int64"),
        TensorContract("bert", [("batch", FEATURES, "phones")]),
        TensorContract("style_vec", [("batch", STYLE_SIZE)]),
        TensorContract("length_scale", [()]),
        TensorContract("sdp_ratio", [()]),
        TensorContract("noise_scale", [()]),
        TensorContract("noise_scale_w", [()]),
        TensorContract("noise", [("values",)]),
    ),
    outputs=(TensorContract(OUTPUT, [("batch", 1, "samples")]),),
)

_NOISE_VALUES = 1 << 19  # 30 s of a full-size voice, and longer than anybody remembers noise


@dataclass(frozen=True)
class Inference:
    """Parameters of Style-Bert-VITS2; the defaults are its own.

    sdp_ratio (0 to 1) is the share of chance in the durations, noise_scale_w its strength;
    length_scale 2 is half as fast.
    """

    speaker: int = 0
    style: int = 0
    style_weight: float = 1.0
    sdp_ratio: float = 0.2
    noise_scale: float = 0.6
    noise_scale_w: float = 0.8
    length_scale: float = 1.0
    seed: int = 0


class StyleBertSynthesis:
    """Speaks phones with a model; any number of threads use it at once, without a lock."""

    def __init__(self, voice: StyleBertVoice, session: GraphSession, encoder: BertEncoder) -> None:
        self._voice = voice
        self._session = session
        self._encoder = encoder
        noise = default_rng(0).standard_normal(_NOISE_VALUES, np.float32)
        # Twice over, so that the noise can begin anywhere without being copied.
        self._noise = np.concatenate([noise, noise])

    def speak(self, phonemes: Phonemes, inference: Inference) -> Samples:
        inputs = self.inputs(phonemes, self._encoder.encode(phonemes.text), inference)
        return self._session.run(inputs, OUTPUT).ravel()

    def inputs(
        self, phonemes: Phonemes, features: NDArray[np.float32], inference: Inference
    ) -> dict[str, NDArray[np.generic]]:
        """Prepare the inputs; `features` of C characters and both ends are [C + 2, 1024]."""
        numbers = synthesis_inputs(phonemes, add_blank=self._voice.add_blank)
        bert = np.repeat(features, numbers.word2ph, axis=0).T
        begin = int(default_rng(inference.seed).integers(_NOISE_VALUES))
        style = self._voice.style_vector(inference.style, inference.style_weight)
        return {
            "x_tst": np.array([numbers.phones], np.int64),
            "x_tst_lengths": np.array([len(numbers.phones)], np.int64),
            "sid": np.array([inference.speaker], np.int64),
            "tones": np.array([numbers.tones], np.int64),
            "language": np.array([numbers.languages], np.int64),
            "bert": np.ascontiguousarray(bert[None]),
            "style_vec": style[None],
            "length_scale": np.array(inference.length_scale, np.float32),
            "sdp_ratio": np.array(inference.sdp_ratio, np.float32),
            "noise_scale": np.array(inference.noise_scale, np.float32),
            "noise_scale_w": np.array(inference.noise_scale_w, np.float32),
            "noise": self._noise[begin : begin + _NOISE_VALUES],
        }

    def try_out(self, phonemes: Phonemes, file: str) -> None:
        features = self._encoder.encode(phonemes.text)
        audio = self._session.try_out(self.inputs(phonemes, features, Inference()), OUTPUT)
        if audio.ndim != 3 or audio.shape[:2] != (1, 1):  # noqa: PLR2004
            raise BundleError(
                f"{file}: output {quoted(OUTPUT)}: expected float32 [1, 1, samples],"
                f" found {list(audio.shape)}."
            )
