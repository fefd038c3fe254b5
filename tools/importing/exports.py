"""The families of exported voices, told apart by the names of their inputs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from shared.runtime.quoting import quoted
from shared.speech.graphs.onnx_files import UnsafeModelError, inspect_model
from tools.bundles.encoder_store import FEATURE_SIZES
from tools.bundles.files import VoiceFileError
from tools.importing import synthesizer_trial
from tools.importing.graph_builder import FLOAT, INT64
from tools.importing.graph_edits import (
    EditedGraph,
    random_outputs,
    repair_phase,
    replace_random_nodes,
    widen_half_precision,
)
from tools.importing.voice_file import FRAMES_PER_SECOND, sample_rate_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


CONTRACT = ("phone", "phone_lengths", "pitch", "pitchf", "ds", "rnd", "noise")
"""The inputs of the engine's contract (see `tools.importing.synthesizer`)."""


@dataclass(frozen=True)
class Family:
    """The form of one tool's exports.

    Attributes:
        zeros: inputs that are given zeros: where a piece of audio begins, and at which phase.
        lengths: scalar inputs that are given the number of frames.
    """

    name: str
    marks: frozenset[str]
    inputs: Mapping[str, str]
    zeros: frozenset[str] = field(default=frozenset())
    lengths: frozenset[str] = field(default=frozenset())

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.inputs.values()) | self.zeros | self.lengths


_OFFICIAL = {name: name for name in CONTRACT if name != "noise"}
_VOICE_CHANGER = {
    "phone": "feats",
    "phone_lengths": "p_len",
    "pitch": "pitch",
    "pitchf": "pitchf",
    "ds": "sid",
}

_OFFICIAL_MARKS = frozenset({"phone", "phone_lengths", "ds", "rnd"})
_VOICE_CHANGER_MARKS = frozenset({"feats", "p_len"})

FAMILIES = (
    Family(
        "Voice Avatar",
        _OFFICIAL_MARKS | {"noise"},
        MappingProxyType({name: name for name in CONTRACT}),
    ),
    Family(
        "streaming export",
        _OFFICIAL_MARKS | {"nsf_noise", "phase_in"},
        MappingProxyType({**_OFFICIAL, "noise": "nsf_noise"}),
        zeros=frozenset({"phase_in"}),
    ),
    Family("RVC", _OFFICIAL_MARKS, MappingProxyType(_OFFICIAL)),
    Family(
        "voice-changer fork",
        _VOICE_CHANGER_MARKS | {"skip_head", "return_length"},
        MappingProxyType(_VOICE_CHANGER),
        zeros=frozenset({"skip_head"}),
        lengths=frozenset({"return_length", "formant_length"}),
    ),
    Family("voice-changer", _VOICE_CHANGER_MARKS, MappingProxyType(_VOICE_CHANGER)),
)


def recognise(inputs: frozenset[str]) -> Family:
    for family in FAMILIES:
        if family.marks <= inputs <= family.known:
            if ("pitch" in inputs) != ("pitchf" in inputs):
                raise VoiceFileError(
                    "expected both of the inputs 'pitch' and 'pitchf' or none, found one."
                )
            return family
    names = ", ".join(quoted(name) for name in sorted(inputs)[:12])
    raise VoiceFileError(
        "expected the inputs of an RVC voice ('phone', 'phone_lengths', 'ds', 'rnd', or 'feats',"
        f" 'p_len', 'sid'), found {names or 'none'}; if there is a .pth of the voice, bring that."
    )


_INPUT_TYPES: Final[Mapping[str, int]] = {
    "phone": FLOAT,
    "phone_lengths": INT64,
    "pitch": INT64,
    "pitchf": FLOAT,
    "ds": INT64,
    "rnd": FLOAT,
    "noise": FLOAT,
}
_OF_PITCH = frozenset({"pitch", "pitchf", "noise"})
_NOISE_CHANNELS = 192
_RANK = 3
_PASSING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def _sizes(value: onnx.ValueInfoProto | None) -> list[int | None]:
    if value is None:
        return []
    return [each.dim_value or None for each in value.type.tensor_type.shape.dim]


def _size(graph: EditedGraph, name: str, axis: int) -> int | None:
    sizes = _sizes(graph.input(name))
    return sizes[axis] if len(sizes) == _RANK else None


def _features(graph: EditedGraph, name: str) -> int:
    found = _size(graph, name, 2)
    if found is None or found not in FEATURE_SIZES.values():
        raise VoiceFileError(
            f"input {quoted(name)}: expected [1, T, 256] or [1, T, 768], found"
            f" {_sizes(graph.input(name))}."
        )
    return found


def _harmonics(graph: EditedGraph, name: str) -> int:
    return 0 if graph.input(name) is None else _size(graph, name, 2) or 1


def count_speakers(graph: EditedGraph, name: str) -> int:
    """Count the rows of the table that the speaker's number is looked up in."""
    tensors = [name]
    for tensor in tensors:
        for node in graph.consumers(tensor):
            if node.op_type in _PASSING:
                tensors.extend(node.output)
            elif node.op_type == "Gather" and node.input[1] == tensor:
                table = graph.value(node.input[0])
                if table is not None and table.ndim:
                    return int(table.shape[0])
    return 1


def take_contract_inputs(graph: EditedGraph, family: Family, names: frozenset[str]) -> None:
    """Let the graph take the contract's inputs, and constants or lengths for the others."""
    for name in frozenset(_INPUT_TYPES) - names:
        graph.free(name)
    for name in sorted((family.zeros | family.lengths) & names):
        value = graph.input(name)
        if value is not None:
            is_length = name in family.lengths
            tensor = length(graph, family, value) if is_length else _zeros(graph, value)
            graph.redirect(name, tensor)
    for name, own in family.inputs.items():
        value = graph.input(own)
        if value is not None:
            take_input(graph, value, name)


def _zeros(graph: EditedGraph, value: onnx.ValueInfoProto) -> str:
    kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return graph.constant(np.zeros([size or 1 for size in _sizes(value)], kind))


def length(graph: EditedGraph, family: Family, value: onnx.ValueInfoProto) -> str:
    shape = graph.prepend("Shape", family.inputs["phone"])
    axis = np.array(1, np.int64) if not _sizes(value) else np.array([1], np.int64)
    return graph.prepend("Gather", shape, graph.constant(axis), axis=0)


def take_input(graph: EditedGraph, value: onnx.ValueInfoProto, name: str) -> None:
    """Let nodes that take an input take the contract's one, converted if need be."""
    kind = value.type.tensor_type.elem_type
    if kind == _INPUT_TYPES[name]:
        graph.redirect(value.name, name)
        return
    converted = graph.reserve()
    graph.redirect(value.name, converted)
    graph.prepend("Cast", name, output=converted, to=kind)


def give_contract_output(graph: EditedGraph) -> None:
    """Let the graph give [1, 1, N] whatever the shape of its audio was."""
    names = [each.name for each in graph.outputs()]
    if not names:
        raise VoiceFileError("expected the output 'audio', found none.")
    audio = "audio" if "audio" in names else names[0]
    inner = graph.reserve()
    node = graph.producer(audio)
    if node is None:
        raise VoiceFileError("output 'audio': expected a result, found an input.")
    node.output[list(node.output).index(audio)] = inner
    graph.redirect(audio, inner)
    graph.free("audio")
    shape = graph.constant(np.array([1, 1, -1], np.int64))
    graph.append("audio", "Reshape", inner, shape)


def declare(graph: EditedGraph, inputs: synthesizer_trial.Inputs) -> None:
    shapes: dict[str, Sequence[int | str]] = {
        "phone": (1, "T", inputs.features),
        "phone_lengths": (1,),
        "pitch": (1, "T"),
        "pitchf": (1, "T"),
        "ds": (1,),
        "rnd": (1, inputs.noise_channels, "T"),
        "noise": (1, "N", inputs.harmonics),
    }
    graph.replace_inputs(
        [
            helper.make_tensor_value_info(name, _INPUT_TYPES[name], list(shape))
            for name, shape in shapes.items()
            if (inputs.has_pitch or name not in _OF_PITCH) and (inputs.harmonics or name != "noise")
        ]
    )
    graph.replace_outputs([helper.make_tensor_value_info("audio", FLOAT, [1, 1, "N"])])


def _replace_random_nodes(
    model: onnx.ModelProto, graph: EditedGraph, inputs: synthesizer_trial.Inputs
) -> tuple[tuple[int, int], int]:
    """Replace what draws random numbers, by what a trial run shows of their shapes.

    Returns:
        What became inputs, and the samples per frame.
    """
    frames = synthesizer_trial.LENGTHS[0]
    drawn = random_outputs(graph)
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    observed.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, None) for name in drawn)
    content: bytes = observed.SerializeToString()
    values = synthesizer_trial.feeds(
        inputs, frames, strides_product(graph) if inputs.harmonics else 0
    )
    audio, *noises = synthesizer_trial.run(
        synthesizer_trial.open_session(content), values, ["audio", *drawn]
    )
    hop = synthesizer_trial.hop_of(audio.size, frames)
    shapes = {name: noise.shape for name, noise in zip(drawn, noises, strict=True)}
    return replace_random_nodes(graph, shapes, frames, audio.size), hop


def strides_product(graph: EditedGraph) -> int:
    """Return by how much the transposed convolutions lengthen, which is the hop."""
    strides = [
        max(attribute.ints)
        for node in graph.nodes
        if node.op_type == "ConvTranspose"
        for attribute in node.attribute
        if attribute.name == "strides" and attribute.ints
    ]
    product = math.prod(strides)
    if not 1 < product <= 48_000:  # noqa: PLR2004 - a second at the most
        raise VoiceFileError(
            f"expected stages that make samples of frames, found strides of {product} together."
        )
    return product


MAX_EXPORT_BYTES = 1 << 30
_OLDEST_OPSET = 11
_LARGEST_METADATA = 10_000
_FACTS = ("embedder", "embOutputLayer", "modelType", "version")
_LONGEST_FACT = 200


@dataclass(frozen=True)
class ExportedVoice:
    """A voice out of an `.onnx`.

    Attributes:
        graph: the ONNX file that fits the contract (see `tools.importing.synthesizer`).
        version: "v1" or "v2", which says what features it takes.
        sample_rate: of its audio in Hz.
    """

    graph: bytes = field(repr=False)
    family: str
    version: str
    has_pitch: bool
    sample_rate: int
    speakers: int
    facts: Mapping[str, str]
    repairs: Sequence[str]


def read_export(content: bytes) -> ExportedVoice:
    """Make an exported voice fit the contract, and try it."""
    model = load(content)
    metadata = _metadata(model)
    repairs = []
    if widen_half_precision(model):
        repairs.append("Half precision was widened to single precision.")
    constants = {each.name for each in model.graph.initializer}
    names = frozenset(each.name for each in model.graph.input) - constants
    family, graph = recognise(names), EditedGraph(model)
    speakers = count_speakers(graph, family.inputs["ds"])
    inputs = synthesizer_trial.Inputs(
        features=_features(graph, family.inputs["phone"]),
        noise_channels=_size(graph, "rnd", 1) or _NOISE_CHANNELS,
        has_pitch=family.inputs["pitch"] in names,
        harmonics=_harmonics(graph, family.inputs.get("noise", "")),
    )
    take_contract_inputs(graph, family, names)
    give_contract_output(graph)
    declare(graph, inputs)
    if random_outputs(graph):
        repairs.append("Random numbers inside of the graph became inputs.")
    (channels, harmonics), hop = _replace_random_nodes(model, graph, inputs)
    inputs = replace(
        inputs,
        noise_channels=channels or inputs.noise_channels,
        harmonics=harmonics or inputs.harmonics,
    )
    declare(graph, inputs)
    if repair_phase(graph):
        repairs.append("The phase, which was wrong where nothing is voiced, was repaired.")
    fitted: bytes = model.SerializeToString()
    synthesizer_trial.check_lengths(fitted, inputs, hop)
    sample_rate = hop * FRAMES_PER_SECOND
    declared = sample_rate_of(metadata.get("samplingRate"))
    if declared not in {None, sample_rate}:
        repairs.append(f"The file says {declared} Hz, but its network makes {sample_rate} Hz.")
    return ExportedVoice(
        graph=fitted,
        family=family.name,
        version=next(key for key, size in FEATURE_SIZES.items() if size == inputs.features),
        has_pitch=inputs.has_pitch,
        sample_rate=sample_rate,
        speakers=speakers,
        facts=_facts(metadata),
        repairs=repairs,
    )


def load(content: bytes) -> onnx.ModelProto:
    if len(content) > MAX_EXPORT_BYTES:
        raise VoiceFileError(f"expected at most {MAX_EXPORT_BYTES} bytes, found {len(content)}.")
    try:
        inspect_model(content)
        model = onnx.ModelProto()
        model.ParseFromString(content)
    except UnsafeModelError as error:
        raise VoiceFileError(str(error)) from error
    except DecodeError as error:
        raise VoiceFileError("expected an ONNX model, found a malformed one.") from error
    opsets = [each.version for each in model.opset_import if each.domain in {"", "ai.onnx"}]
    if not opsets or opsets[0] < _OLDEST_OPSET:
        raise VoiceFileError(
            f"expected operators of version {_OLDEST_OPSET} or newer, found"
            f" {opsets[0] if opsets else 'none'}."
        )
    return model


def _metadata(model: onnx.ModelProto) -> dict[str, object]:
    """Read the metadata that voice-changer and its kin write into a file, if there is any."""
    for entry in model.metadata_props:
        if entry.key == "metadata" and len(entry.value) <= _LARGEST_METADATA:
            try:
                metadata = json.loads(entry.value)
            except (ValueError, RecursionError):
                return {}
            return metadata if isinstance(metadata, dict) else {}
    return {}


def _facts(metadata: Mapping[str, object]) -> dict[str, str]:
    facts = {}
    for name in _FACTS:
        value = metadata.get(name)
        if isinstance(value, str | int):
            letters = (letter for letter in str(value)[:_LONGEST_FACT] if letter.isprintable())
            facts[name] = "".join(letters)
    return facts
