"""Voices in the format AIVMX: an ONNX graph that carries its manifest, speakers and styles.

The file is an ordinary ONNX model of a voice of Style-Bert-VITS2 with entries in its metadata (see
speech.engines.style_bert_vits2.aivm). Its noise becomes an input, and its decoder is rewritten for
speed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from importing.aivmx.noise import RandomGraphError, take_noise_as_input
from importing.aivmx.wide_convolutions import widen_convolutions
from importing.files.errors import VoiceFileError
from importing.files.reading import read_file
from shared.process.quoting import printable, quoted
from speech.bundles.onnx_model import UnsafeModelError, inspect_model
from speech.engines.style_bert_vits2.aivm import ENTRIES, AivmxFacts, read_facts
from speech.engines.style_bert_vits2.aivm_media import AivmxError

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class AivmxVoice:
    """A voice as an AIVMX file has it.

    Attributes:
        facts: what the file says about it.
        graph: ONNX; its noise is an input, and its metadata still says the same.
    """

    facts: AivmxFacts
    graph: bytes


def read_aivmx(path: Path) -> AivmxVoice:
    """Read a voice from an AIVMX file.

    Raises:
        AivmxError: see parse_aivmx; or the file cannot be read, or is too large.
    """
    try:
        content = read_file(path, MAX_FILE_BYTES)
    except VoiceFileError as error:
        raise AivmxError(str(error)) from error
    return parse_aivmx(content)


def parse_aivmx(content: bytes) -> AivmxVoice:
    """Read a voice from the content of an AIVMX file.

    Raises:
        AivmxError: the file is no ONNX model or an unsafe one, an entry of its metadata is missing,
            malformed or too large, or the voice is of an architecture that is not supported.
    """
    model = _load_model(content)
    metadata = _metadata(model)
    return AivmxVoice(read_facts(metadata), _runnable(model))


def _load_model(content: bytes) -> ModelProto:
    try:
        inspect_model(content)
        return onnx.load_model_from_string(content)
    except UnsafeModelError as error:
        raise AivmxError(f"AIVMX: {error}") from error
    except DecodeError as error:
        raise AivmxError(
            f"AIVMX: expected an ONNX model, found {printable(str(error))}."
        ) from error


def _metadata(model: ModelProto) -> dict[str, str]:
    try:
        entries = [(entry.key, entry.value) for entry in model.metadata_props]
    except UnicodeDecodeError as error:
        raise AivmxError(f"AIVMX: expected metadata in UTF-8, found {error}.") from error
    for name, times in Counter(name for name, _ in entries).items():
        if times > 1:
            raise AivmxError(f"{quoted(name)}: expected once in the metadata, found again.")
    return dict(entries)


def _runnable(model: ModelProto) -> bytes:
    """Make the graph's noise an input, leave out what no engine asks for, and speed it up."""
    del model.graph.output[1:]
    try:
        take_noise_as_input(model)
        widen_convolutions(model)
    except RandomGraphError as error:
        raise AivmxError(f"AIVMX: {error}") from error
    except ValueError as error:  # names that are not UTF-8, attributes of a wrong type
        raise AivmxError(
            f"AIVMX: expected a well-formed graph, found {printable(str(error))}."
        ) from error
    entries = [entry for entry in model.metadata_props if entry.key in ENTRIES]
    del model.metadata_props[:]
    model.metadata_props.extend(entries)
    return bytes(model.SerializeToString())
