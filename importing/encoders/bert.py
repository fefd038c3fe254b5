"""The character-level BERT that voices of Style-Bert-VITS2 share, as a user brings it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import ModelProto, StringStringEntryProto

from importing.encoders.encoder_store import FeatureOutput
from importing.files.errors import VoiceFileError
from shared.process.quoting import printable
from shared.process.reading import read_at_most
from speech.bundles.bundle import Graph
from speech.bundles.files import BundleError
from speech.bundles.onnx_model import UnsafeModelError, inspect_model
from speech.engines.style_bert_vits2.encoder import (
    CONTRACT,
    FEATURES,
    VOCABULARY,
    BertEncoder,
    read_vocabulary,
)
from speech.networks.session import GraphSession
from speech.networks.settings import SessionSettings
from speech.text.phones.tokens import MAX_VOCABULARY_BYTES, Vocabulary, VocabularyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TEXT = "今日はとてもいい天気ですね。"
OUTPUTS: Sequence[FeatureOutput] = (FeatureOutput("output", FEATURES, channels_first=False),)
"""The encoder's output that voices ask for."""


@dataclass(frozen=True)
class BertReport:
    """What a BERT that works needs.

    Attributes:
        content: the ONNX file, with its vocabulary in its metadata.
        tokens: how many its vocabulary has.
        milliseconds: for a text of 14 characters, with one thread.
    """

    content: bytes
    tokens: int
    milliseconds: float


def is_bert(content: bytes) -> bool:
    """Return whether an ONNX file takes the tokens of a text."""
    try:
        return "input_ids" in inspect_model(content).inputs
    except UnsafeModelError:
        return False


def read_tokens(path: Path) -> str:
    """Read a `vocab.txt`: one token in each line.

    Raises:
        VoiceFileError: it cannot be read, or is no vocabulary.
    """
    try:
        Vocabulary.read(path)
        return read_at_most(path, MAX_VOCABULARY_BYTES).decode("utf-8").removesuffix("\n")
    except (OSError, VocabularyError) as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def inspect_bert(given: tuple[bytes, str | None]) -> BertReport:
    """Try a BERT on a text.

    Args:
        given: the ONNX file, and its vocabulary with one token in each line, or None if the file
            carries it already.

    Raises:
        VoiceFileError: it is not the BERT that voices need, or has no vocabulary.
    """
    content, tokens = given
    if tokens is not None:
        content += _as_metadata(tokens)
    try:
        graph = Graph("encoder", content, inspect_model(content))
        CONTRACT.check(graph)
        session = GraphSession(graph, SessionSettings())
        if VOCABULARY not in session.metadata:
            raise VoiceFileError(
                "expected the vocabulary of this BERT; give its vocab.txt with --vocabulary."
            )
        encoder = BertEncoder(session, read_vocabulary(session.metadata))
        encoder.try_out(graph)
    except (BundleError, UnsafeModelError, VocabularyError) as error:
        raise VoiceFileError(str(error)) from error
    begin = time.perf_counter()
    encoder.encode(_TEXT)
    milliseconds = (time.perf_counter() - begin) * 1000
    return BertReport(content, session.metadata[VOCABULARY].count("\n") + 1, milliseconds)


def _as_metadata(tokens: str) -> bytes:
    """Build the bytes that add a vocabulary to a model's file when they are appended.

    A message of protocol buffers may be followed by more of its repeated fields
    (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so that a model of more than
    a gigabyte need not be taken apart.
    """
    entry = StringStringEntryProto(key=VOCABULARY, value=tokens)
    return bytes(ModelProto(metadata_props=[entry]).SerializeToString())
