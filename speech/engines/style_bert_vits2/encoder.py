"""The character-level BERT that voices of Style-Bert-VITS2 share.

Its graph takes `input_ids` and `attention_mask`, int64 [1, tokens], and gives `output`, float32
[tokens, 1024]: the third last hidden layer of ku-nlp/deberta-v2-large-japanese-char-wwm.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shared.process.quoting import quoted
from speech.bundles.bundle import Graph
from speech.bundles.contracts import GraphContract, TensorContract
from speech.bundles.files import BundleError
from speech.networks.session import GraphSession
from speech.text.phones.tokens import Vocabulary, VocabularyError

FEATURES = 1_024

CONTRACT = GraphContract(
    inputs=(
        TensorContract("input_ids", [("batch", "tokens")], "int64"),
        TensorContract("attention_mask", [("batch", "tokens")], "int64"),
    ),
    outputs=(TensorContract("output", [("tokens", FEATURES)]),),
)


VOCABULARY = "vocabulary"
"""The entry of the graph's metadata that holds the vocabulary: one token in each line."""


def read_vocabulary(metadata: Mapping[str, str]) -> Vocabulary:
    """Read the vocabulary that a graph carries.

    Raises:
        VocabularyError: it carries none, or the vocabulary is none.
    """
    if VOCABULARY not in metadata:
        raise VocabularyError(f"expected {quoted(VOCABULARY)} in the model's metadata, found none.")
    return Vocabulary.of_tokens(metadata[VOCABULARY].split("\n"))


class BertEncoder:
    """Turns the characters of a text into features; any number of threads use it at once.

    Args:
        session: the graph.
        vocabulary: the characters that it knows.
    """

    def __init__(self, session: GraphSession, vocabulary: Vocabulary) -> None:
        self._session = session
        self._vocabulary = vocabulary

    def encode(self, text: str) -> NDArray[np.float32]:
        """Encode a text of C characters: float32 [C + 2, 1024], with the marks of both ends."""
        ids = np.array([self._vocabulary.encode(text)], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return self._session.run(inputs, "output")

    def try_out(self, graph: Graph) -> None:
        """Run the graph on a short text.

        Raises:
            BundleError: it fails, or its output is not what it must be.
        """
        ids = np.array([self._vocabulary.encode("あ")], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        features = self._session.try_out(inputs, "output")
        if features.shape != (ids.size, FEATURES):
            raise BundleError(
                f"{graph.file}: output 'output': expected float32 [{ids.size}, {FEATURES}] for"
                f" {ids.size} tokens, found {list(features.shape)}."
            )
