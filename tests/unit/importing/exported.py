"""Exports of other tools, made of our own graphs: other names, random numbers, wrong phase."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.unit.importing.voices import Kind, voice_bytes
from tools.importing.synthesizer import build_synthesizer
from tools.importing.voice_file import read_voice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
VOICE_CHANGER = {"phone": "feats", "phone_lengths": "p_len", "ds": "sid"}


class Export:
    """A synthesizer that is made to look like another tool's."""

    def __init__(self, kind: Kind) -> None:
        self.original = build_synthesizer(read_voice(io.BytesIO(voice_bytes(kind))))
        self.model = onnx.load_from_string(self.original)
        del self.model.metadata_props[:]
        self._graph = self.model.graph

    def content(self) -> bytes:
        onnx.checker.check_model(self.model)
        content: bytes = self.model.SerializeToString()
        return content

    def say(self, **metadata: Any) -> Export:
        helper.set_model_props(self.model, {"metadata": json.dumps(metadata)})
        return self

    def rename(self, names: Mapping[str, str]) -> Export:
        for value in self._graph.input:
            if value.name in names:
                self._redirect(value.name, names[value.name])
                value.name = names[value.name]
        return self

    def drop_input(self, name: str, nodes: Sequence[onnx.NodeProto]) -> Export:
        """Let nodes make what was an input; the last one's output takes its place."""
        (value,) = [each for each in self._graph.input if each.name == name]
        self._graph.input.remove(value)
        self._redirect(name, nodes[-1].output[0])
        for node in reversed(nodes):
            self._graph.node.insert(0, node)
        return self

    def add_input(self, name: str, kind: int, shape: Sequence[int | str]) -> Export:
        self._graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return self

    def constant(self, name: str, value: Any) -> Export:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return self

    def end_with(self, *nodes: onnx.NodeProto, shape: Sequence[int | str]) -> Export:
        """Let nodes take `inner`, which was the audio, and make `audio`, of another shape."""
        (last,) = [node for node in self._graph.node if "audio" in node.output]
        last.output[0] = "inner"
        self._graph.node.extend(nodes)
        del self._graph.output[:]
        self._graph.output.append(helper.make_tensor_value_info("audio", FLOAT, list(shape)))
        return self

    def halve(self) -> Export:
        """Store everything in half precision, as exports made on a graphics card do."""
        for initializer in self._graph.initializer:
            if initializer.data_type == FLOAT:
                value = numpy_helper.to_array(initializer).astype(np.float16)
                initializer.CopyFrom(numpy_helper.from_array(value, initializer.name))
        for tensor in (*self._graph.input, *self._graph.output):
            if tensor.type.tensor_type.elem_type == FLOAT:
                tensor.type.tensor_type.elem_type = TensorProto.FLOAT16
        for node in self._graph.node:
            for attribute in node.attribute:
                if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                    attribute.i = TensorProto.FLOAT16
        return self

    def _redirect(self, old: str, new: str) -> None:
        for node in self._graph.node:
            for at, name in enumerate(node.input):
                if name == old:
                    node.input[at] = new


def official(kind: Kind) -> Export:
    """Make an export of RVC of the last generation: the source's noise is drawn inside."""
    export = Export(kind)
    return _with_drawn_source(export, "phone") if kind.has_pitch else export


def voice_changer(kind: Kind) -> Export:
    """Make an export of voice-changer: all noise is drawn inside, the audio is a clipped vector."""
    export = _with_drawn_noise(kind).constant("low", np.float32(-1)).constant("high", np.float32(1))
    export.end_with(
        helper.make_node("Reshape", ["inner", "flat"], ["vector"]),
        helper.make_node("Clip", ["vector", "low", "high"], ["audio"]),
        shape=["N"],
    )
    return export.rename(VOICE_CHANGER).say(
        application="VC_CLIENT", version="2.1", samplingRate=kind.sample_rate, f0=kind.has_pitch
    )


def fork(kind: Kind) -> Export:
    """Make an export of voice-changer's fork: with scalars that say which part is wanted."""
    export = _with_drawn_noise(kind).constant("hop", np.array(kind.sample_rate // 100, np.int64))
    for name in ("skip_head", "return_length", "formant_length"):
        export.add_input(name, INT64, [])
    export.end_with(
        helper.make_node("Mul", ["skip_head", "hop"], ["begin"]),
        helper.make_node("Mul", ["return_length", "hop"], ["part"]),
        helper.make_node("Add", ["begin", "part"], ["end"]),
        helper.make_node("Reshape", ["begin", "flat"], ["begins"]),
        helper.make_node("Reshape", ["end", "flat"], ["ends"]),
        helper.make_node("Reshape", ["inner", "flat"], ["vector"]),
        helper.make_node("Slice", ["vector", "begins", "ends"], ["audio"]),
        shape=["N"],
    )
    return export.rename(VOICE_CHANGER)


def _with_drawn_noise(kind: Kind) -> Export:
    """Let the graph draw both noises, and scale the prior's."""
    export = Export(kind)
    if kind.has_pitch:
        _with_drawn_source(export, "phone")
    export.constant("scale", np.float32(0.66666)).constant("flat", np.array([-1], np.int64))
    export.constant("prior head", np.array([1, 6], np.int64))
    return export.drop_input(
        "rnd",
        [
            helper.make_node("Shape", ["phone"], ["frames"], start=1, end=2),
            helper.make_node("Concat", ["prior head", "frames"], ["prior shape"], axis=0),
            helper.make_node("ConstantOfShape", ["prior shape"], ["empty prior"]),
            helper.make_node("RandomNormalLike", ["empty prior"], ["drawn"], dtype=FLOAT),
            helper.make_node("Mul", ["drawn", "scale"], ["scaled"]),
        ],
    )


def streaming(kind: Kind) -> Export:
    """Make an export for streaming: with a phase at the beginning, and the one at the end."""
    export = Export(kind).rename({"noise": "nsf_noise"})
    export.add_input("phase_in", FLOAT, [1, 1, 1])
    export.end_with(helper.make_node("Add", ["inner", "phase_in"], ["audio"]), shape=[1, 1, "N"])
    export.model.graph.node.append(
        helper.make_node("Identity", ["phase_in"], ["streaming_nsf_phase"])
    )
    export.model.graph.output.append(
        helper.make_tensor_value_info("streaming_nsf_phase", FLOAT, [1, 1, 1])
    )
    return export


def _with_drawn_source(export: Export, phone: str) -> Export:
    (noise,) = [each for each in export.model.graph.input if each.name == "noise"]
    harmonics = noise.type.tensor_type.shape.dim[2].dim_value
    export.constant("samples per frame", np.array([_hop(export)], np.int64))
    export.constant("one", np.array([1], np.int64))
    export.constant("harmonics", np.array([harmonics], np.int64))
    return export.drop_input(
        "noise",
        [
            helper.make_node("Shape", [phone], ["length"], start=1, end=2),
            helper.make_node("Mul", ["length", "samples per frame"], ["samples"]),
            helper.make_node("Concat", ["one", "samples", "harmonics"], ["shape"], axis=0),
            helper.make_node("ConstantOfShape", ["shape"], ["empty"]),
            helper.make_node("RandomNormalLike", ["empty"], ["source noise"], dtype=FLOAT),
        ],
    )


def _hop(export: Export) -> int:
    strides = [
        attribute.ints[1]
        for node in export.model.graph.node
        if node.op_type == "ConvTranspose"
        for attribute in node.attribute
        if attribute.name == "strides"
    ]
    return int(np.prod(strides))
