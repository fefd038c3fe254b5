"""Makes a character of an AIVMX voice."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from shared.characters.manifest import SCHEMA_VERSION
from shared.runtime.quoting import printable, quoted
from shared.speech.engines.aivmx import ENTRIES, AivmxError, AivmxFacts, read_facts
from shared.speech.engines.style_bert_graphs import FEATURES
from shared.speech.graphs.onnx_files import UnsafeModelError, inspect_model
from tools.bundles.files import VoiceFileError, read_file, require_file, run_apart
from tools.bundles.portraits import draw_portrait
from tools.bundles.writer import (
    COLOUR,
    LIMITS,
    entry,
    owner_fields,
    preview,
    shared_entry,
    write_files,
)
from tools.importing.wide_convolutions import widen_convolutions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from onnx import ModelProto, NodeProto

    from tools.bundles.consent import Consent
    from tools.bundles.encoder_store import StoredEncoder


NOISE = "noise"
_NORMAL_LIKE = "RandomNormalLike"
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        _NORMAL_LIKE,
        "RandomUniform",
        "RandomUniformLike",
    }
)
_PREFIX = "noise_input"


def take_noise_as_input(model: ModelProto) -> int:
    """Rewrite a graph in place so that it takes its noise as the input `noise`, float32 [N].

    Raises:
        AivmxError: the graph draws in a way that is not known, or has such an input already.
    """
    graph = model.graph
    refuse_nested(graph.node)
    if NOISE in {value.name for value in graph.input}:
        raise AivmxError(f"AIVMX: input {quoted(NOISE)}: expected a graph without it, found one.")
    nodes: list[NodeProto] = []
    start = f"{_PREFIX}/zero"
    count = 0
    for node in graph.node:
        if node.op_type not in _RANDOM:
            nodes.append(node)
            continue
        if node.op_type != _NORMAL_LIKE:
            raise AivmxError(
                f"AIVMX: operator {quoted(node.op_type)}: expected chance from {_NORMAL_LIKE}"
                " alone, found this."
            )
        count += 1
        replacement, start = reading(node, start, count)
        nodes += replacement
    if count == 0:
        return 0
    del graph.node[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info(NOISE, TensorProto.FLOAT, ["values"]))
    for name, value in (("zero", 0), ("one", 1)):
        graph.initializer.append(
            numpy_helper.from_array(np.array(value, np.int64), f"{_PREFIX}/{name}")
        )
    return count


def refuse_nested(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for graph in graphs:
                for inner in graph.node:
                    if inner.op_type in _RANDOM:
                        raise AivmxError(
                            f"AIVMX: operator {quoted(inner.op_type)}: expected it outside of"
                            f" {quoted(node.op_type)}, found it inside."
                        )
                refuse_nested(graph.node)


def reading(node: NodeProto, start: str, number: int) -> tuple[list[NodeProto], str]:
    """Make what reads the noise instead of a RandomNormalLike, and say where it stops."""
    name = f"{_PREFIX}/{number}"
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if attributes.get("dtype", TensorProto.FLOAT) != TensorProto.FLOAT:
        raise AivmxError(
            f"AIVMX: operator {quoted(_NORMAL_LIKE)}: expected float32, found another type."
        )
    if (attributes.get("mean", 0.0), attributes.get("scale", 1.0)) != (0.0, 1.0):
        raise AivmxError(
            f"AIVMX: operator {quoted(_NORMAL_LIKE)}: expected mean 0 and scale 1, found others."
        )
    if (len(node.input), len(node.output)) != (1, 1):
        raise AivmxError(
            f"AIVMX: operator {quoted(_NORMAL_LIKE)}: expected one input and one output, found"
            f" {len(node.input)} and {len(node.output)}."
        )
    like, output = node.input[0], node.output[0]
    nodes = [
        helper.make_node("Shape", [like], [f"{name}/shape"]),
        helper.make_node("Size", [like], [f"{name}/size"]),
        helper.make_node("Size", [NOISE], [f"{name}/values"]),
        helper.make_node("Add", [start, f"{name}/size"], [f"{name}/stop"]),
        helper.make_node("Range", [start, f"{name}/stop", f"{_PREFIX}/one"], [f"{name}/places"]),
        helper.make_node("Mod", [f"{name}/places", f"{name}/values"], [f"{name}/wrapped"]),
        helper.make_node("Gather", [NOISE, f"{name}/wrapped"], [f"{name}/read"]),
        helper.make_node("Reshape", [f"{name}/read", f"{name}/shape"], [output]),
    ]
    return nodes, f"{name}/stop"


MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class AivmxVoice:
    facts: AivmxFacts
    graph: bytes


def parse_aivmx(content: bytes) -> AivmxVoice:
    """Read a voice from the content of an AIVMX file.

    Raises:
        AivmxError: the file is no ONNX model or an unsafe one, an entry of its metadata is missing,
            malformed or too large, or the voice is of an architecture that is not supported.
    """
    model = load_model(content)
    metadata = _metadata(model)
    return AivmxVoice(read_facts(metadata), runnable(model))


def load_model(content: bytes) -> ModelProto:
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


def runnable(model: ModelProto) -> bytes:
    """Make the graph's noise an input, leave out what no engine asks for, and speed it up."""
    del model.graph.output[1:]
    try:
        take_noise_as_input(model)
        widen_convolutions(model)
    except AivmxError:
        raise
    except ValueError as error:  # names that are not UTF-8, attributes of a wrong type
        raise AivmxError(
            f"AIVMX: expected a well-formed graph, found {printable(str(error))}."
        ) from error
    entries = [entry for entry in model.metadata_props if entry.key in ENTRIES]
    del model.metadata_props[:]
    model.metadata_props.extend(entries)
    return bytes(model.SerializeToString())


SUFFIX = ".aivmx"
ENGINE = "style_bert_vits2"
ENCODER_WIDTH = FEATURES
_LONGEST_LICENCE = 30_000


@dataclass(frozen=True, eq=False)
class ImportedTextVoice:
    """A voice that was read from an AIVMX file.

    Attributes:
        portrait: its first speaker's icon as an SVG; None if nothing can show that icon.
    """

    read: AivmxVoice
    portrait: bytes | None
    sha256: str


def read_text_voice(path: Path) -> ImportedTextVoice:
    """Read an AIVMX file in a process of its own."""
    try:
        require_file(path)
        voice, portrait = run_apart(read_with_portrait, path)
        # Afterwards: a file that is too large was refused.
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return ImportedTextVoice(voice, portrait, sha256)
    except OSError as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a readable file, found none ({error.strerror})."
        ) from error
    except (AivmxError, VoiceFileError) as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def read_with_portrait(path: Path) -> tuple[AivmxVoice, bytes | None]:
    voice = parse_aivmx(read_file(path, MAX_FILE_BYTES))
    icon = voice.facts.icons[voice.facts.voice.speakers[0].uuid]
    try:
        return voice, draw_portrait(icon.content, COLOUR)
    except VoiceFileError:
        # The voice speaks without it all the same; the import's table says so.
        return voice, None


def write_text_bundle(
    characters: Path,
    character: str,
    names: tuple[str, str],
    voice: ImportedTextVoice,
    *,
    encoder: StoredEncoder,
    consent: Consent,
) -> None:
    read, (ja, en) = voice.read, names
    graphs = {"synthesis": read.graph}
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "id": character,
        "name": {"ja": ja, "en": en},
        "engine": ENGINE,
        "sample_rate": read.facts.voice.sample_rate,
        "takes": "text",
        "text": {"styles": list(_styles(read.facts))},
        "graphs": {
            "synthesis": entry("synthesis", read.graph),
            "bert": shared_entry("bert", encoder),
        },
        "pitch": None,
        "limits": LIMITS,
        **owner_fields(consent),
        "preview": preview(voice.portrait),
        "origin": _origin(read.facts, voice.sha256, consent),
    }
    licence = read.facts.licence
    if licence and not consent.licence_text:
        manifest["licence"] = {**manifest["licence"], "text": licence[:_LONGEST_LICENCE]}
    write_files(characters / character, manifest, graphs, voice.portrait)


def _styles(facts: AivmxFacts) -> list[dict[str, Any]]:
    return [
        {"id": style.id, "name": style.name, "speaker": speaker.name}
        for speaker in facts.voice.speakers
        for style in speaker.styles
    ]


def _origin(facts: AivmxFacts, sha256: str, consent: Consent) -> dict[str, Any]:
    author = consent.author or ", ".join(facts.creators)[:200] or None
    origin = {
        "source": consent.source,
        "author": author,
        "sha256": sha256,
        "tool": f"AIVMX: {facts.name} {facts.version}",
    }
    return {name: value for name, value in origin.items() if value is not None}
