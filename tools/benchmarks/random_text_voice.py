"""An AIVMX voice and its BERT of the size of real ones, with random weights.

The sizes are those of the published configurations: DeBERTa V2 large up to the layer that voices
read, and Style-Bert-VITS2 (JP-Extra) with its text encoder, its flow of transformers, and HiFi-GAN
at 44.1 kHz. Each phone lasts three frames of 512 samples.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from functions.compat.voicevox.speakers import plain_png
from infra.local.configuration.options import ROOT
from shared.characters.manifest import ENCODERS, MANIFEST
from shared.speech.engines.style_bert_graphs import VOCABULARY
from tools.bundles.writer import entry, preview, write_files
from tools.importing.wide_convolutions import widen_convolutions

OPSET: Final = 18


class RandomGraph:
    """A graph that grows node by node; signals are [1, C, T], rows are [1, T, C].

    Each method adds nodes and returns the name of their output.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: npt.ArrayLike, kind: type = np.float32) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def sizes(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weights(self, *shape: int, fan_in: int) -> str:
        """Add random weights that preserve the size of their input."""
        drawn = self._random.standard_normal(shape, np.float32)
        return self.constant(drawn / math.sqrt(fan_in))

    def linear(self, x: str, before: int, after: int) -> str:
        product = self.node("MatMul", x, self.weights(before, after, fan_in=before))
        return self.node("Add", product, self.constant(np.zeros(after)))

    def convolution(self, x: str, before: int, after: int, kernel: int, dilation: int = 1) -> str:
        """Convolve a signal over time; its length stays."""
        reach = (kernel - 1) * dilation
        weights = self.weights(after, before, kernel, fan_in=kernel * before)
        return self.node(
            "Conv",
            *(x, weights, self.constant(np.zeros(after))),
            kernel_shape=[kernel],
            dilations=[dilation],
            pads=[reach // 2, reach - reach // 2],
        )

    def upsampling(self, x: str, channels: int, kernel: int, rate: int) -> str:
        """Lengthen a signal and halve its channels."""
        weights = self.weights(channels, channels // 2, kernel, fan_in=channels * kernel // rate)
        return self.node(
            "ConvTranspose",
            *(x, weights, self.constant(np.zeros(channels // 2))),
            kernel_shape=[kernel],
            strides=[rate],
            pads=[(kernel - rate) // 2] * 2,
        )

    def transposed(self, x: str) -> str:
        """Turn rows into a signal, or a signal into rows."""
        return self.node("Transpose", x, perm=[0, 2, 1])

    def normalised_sum(self, x: str, y: str, channels: int) -> str:
        ones, zeros = self.constant(np.ones(channels)), self.constant(np.zeros(channels))
        return self.node("LayerNormalization", self.node("Add", x, y), ones, zeros)

    def gelu(self, x: str) -> str:
        """Add the rectifier of HuBERT, in the form that ONNX Runtime fuses."""
        curve = self.node("Erf", self.node("Div", x, self.constant(math.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", curve, self.constant(1)))
        return self.node("Mul", product, self.constant(0.5))

    def attention(self, x: str, channels: int, heads: int, positions: str | None = None) -> str:
        """Add self-attention over rows, disentangled (DeBERTa) where positions are given."""
        split = self.sizes(1, -1, heads, channels // heads)

        def heads_of(rows: str, perm: Sequence[int]) -> str:
            shaped = self.node("Reshape", self.linear(rows, channels, channels), split)
            return self.node("Transpose", shaped, perm=perm)

        queries, values = heads_of(x, [0, 2, 1, 3]), heads_of(x, [0, 2, 1, 3])
        keys = heads_of(x, [0, 2, 3, 1])
        scores = self.node("MatMul", queries, keys)
        if positions is not None:
            # The part of the positions is constant; only an optimised graph computes it once.
            for side in (queries, self.node("Transpose", keys, perm=[0, 1, 3, 2])):
                across = self.node("MatMul", side, heads_of(positions, [0, 2, 3, 1]))
                mean = self.node("ReduceMean", across, self.sizes(-1))
                scores = self.node("Add", scores, mean)
        scale = math.sqrt((1 if positions is None else 3) * channels // heads)
        shares = self.node("Softmax", self.node("Div", scores, self.constant(scale)), axis=-1)
        heard = self.node("Transpose", self.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        return self.linear(
            self.node("Reshape", heard, self.sizes(1, -1, channels)), channels, channels
        )

    def model(self, inputs: Sequence[Any], output: Any, metadata: dict[str, str]) -> Any:
        """Return the model, whose output is that of the last node."""
        self._nodes[-1].output[0] = output.name
        graph = helper.make_graph(self._nodes, "random", inputs, [output], self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        helper.set_model_props(model, metadata)
        return model


CHARACTER: Final = "random"
SAMPLE_RATE: Final = 44_100
UUID: Final = "a0000000-0000-4000-8000-000000000000"
LAYERS: Final = 22  # layers of the BERT, up to the one that voices read
_MEI: Final = ROOT / "tests" / "data" / "bundles" / "mei"
_TOKENS, _WIDTH, _HEADS, _FEED_FORWARD, _POSITIONS = 22_012, 1_024, 16, 4_096, 512
_PHONES, _TONES, _LANGUAGES, _STYLE = 112, 12, 3, 256
_INTER, _FILTER, _TEXT_HEADS, _TEXT_LAYERS, _FLOW_LAYERS, _FRAMES = 192, 768, 2, 6, 24, 3
_RATES, _KERNELS, _CHANNELS = (8, 8, 2, 2, 2), (16, 16, 8, 2, 2), 512
_BLOCKS, _DILATIONS, _SLOPE = (3, 7, 11), (1, 3, 5), 0.1


def write_characters(folder: Path, layers: int = LAYERS) -> None:
    """Write Mei and a voice of full size into an empty folder, as an import does."""
    model = synthesizer()
    widen_convolutions(model)
    encoder, voice = bert(layers).SerializeToString(), model.SerializeToString()
    digest = hashlib.sha256(encoder).hexdigest()
    (folder / ENCODERS).mkdir(parents=True)
    (folder / ENCODERS / f"{digest}.onnx").write_bytes(encoder)
    shutil.copytree(_MEI, folder / _MEI.name)
    manifest = json.loads((_MEI / MANIFEST).read_text("utf-8")) | {
        "id": CHARACTER,
        "pitch": None,
        "text": None,
        "preview": preview(None),
        "engine": "style_bert_vits2",
        "sample_rate": SAMPLE_RATE,
        "takes": "text",
        "graphs": {
            "bert": {"file": "bert.onnx", "sha256": digest, "bytes": len(encoder)},
            "synthesis": entry("synthesis", voice),
        },
    }
    write_files(folder / CHARACTER, manifest, {"synthesis": voice})


def bert(layers: int = LAYERS) -> Any:
    """Return a BERT: `input_ids` [1, tokens] -> `output` [tokens, 1024]."""
    graph = RandomGraph()
    positions = graph.weights(_POSITIONS, _WIDTH, fan_in=1)
    x = graph.node("Gather", graph.weights(_TOKENS, _WIDTH, fan_in=1), "input_ids")
    for _ in range(layers):
        x = graph.normalised_sum(x, graph.attention(x, _WIDTH, _HEADS, positions), _WIDTH)
        inner = graph.gelu(graph.linear(x, _WIDTH, _FEED_FORWARD))
        x = graph.normalised_sum(x, graph.linear(inner, _FEED_FORWARD, _WIDTH), _WIDTH)
    graph.node("Reshape", x, graph.sizes(-1, _WIDTH))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["tokens", _WIDTH])
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *map(chr, range(0x3041, 0x3100))]
    return graph.model(inputs, output, {VOCABULARY: "\n".join(tokens)})


def synthesizer() -> Any:
    graph = RandomGraph()
    x = graph.node("Gather", graph.weights(_PHONES, _INTER, fan_in=1), "x_tst")
    for name, count in (("tones", _TONES), ("language", _LANGUAGES)):
        table = graph.weights(count, _INTER, fan_in=1)
        x = graph.node("Add", x, graph.node("Gather", table, name))
    x = graph.node("Add", x, graph.linear(graph.transposed("bert"), _WIDTH, _INTER))
    x = graph.node("Add", x, graph.linear("style_vec", _STYLE, _INTER))
    for _ in range(_TEXT_LAYERS):
        x = _text_layer(graph, x)
    phones = graph.node("Reshape", x, graph.sizes(1, -1, 1, _INTER))
    frames = graph.node("Tile", phones, graph.sizes(1, 1, _FRAMES, 1))
    x = graph.node("Reshape", frames, graph.sizes(1, -1, _INTER))
    for _ in range(_FLOW_LAYERS):
        x = _text_layer(graph, x)
    _add_decoder(graph, graph.transposed(x))
    floats = ("length_scale", "sdp_ratio", "noise_scale", "noise_scale_w")
    shapes: dict[str, tuple[int, list[int | str]]] = {
        "x_tst": (TensorProto.INT64, ["batch", "phones"]),
        "x_tst_lengths": (TensorProto.INT64, ["batch"]),
        "sid": (TensorProto.INT64, ["batch"]),
        "tones": (TensorProto.INT64, ["batch", "phones"]),
        "language": (TensorProto.INT64, ["batch", "phones"]),
        "bert": (TensorProto.FLOAT, ["batch", _WIDTH, "phones"]),
        "style_vec": (TensorProto.FLOAT, ["batch", _STYLE]),
        **{name: (TensorProto.FLOAT, []) for name in floats},
        "noise": (TensorProto.FLOAT, ["values"]),
    }
    inputs = [helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()]
    audio = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 1, "samples"])
    return graph.model(inputs, audio, _aivmx_metadata())


def _text_layer(graph: RandomGraph, x: str) -> str:
    x = graph.normalised_sum(x, graph.attention(x, _INTER, _TEXT_HEADS), _INTER)
    inner = graph.convolution(graph.transposed(x), _INTER, _FILTER, 5)
    inner = graph.convolution(graph.node("Relu", inner), _FILTER, _INTER, 5)
    return graph.normalised_sum(x, graph.transposed(inner), _INTER)


def _add_decoder(graph: RandomGraph, x: str) -> None:
    x, channels = graph.convolution(x, _INTER, _CHANNELS, 7), _CHANNELS
    for rate, kernel in zip(_RATES, _KERNELS, strict=True):
        x = graph.upsampling(graph.node("LeakyRelu", x, alpha=_SLOPE), channels, kernel, rate)
        channels //= 2
        x = graph.node("Sum", *(_block(graph, x, channels, size) for size in _BLOCKS))
        x = graph.node("Mul", x, graph.constant(1 / 3))
    x = graph.convolution(graph.node("LeakyRelu", x, alpha=0.01), channels, 1, 7)
    graph.node("Tanh", x)


def _block(graph: RandomGraph, x: str, channels: int, kernel: int) -> str:
    for dilation in _DILATIONS:
        inner = graph.node("LeakyRelu", x, alpha=_SLOPE)
        inner = graph.convolution(inner, channels, channels, kernel, dilation)
        inner = graph.node("LeakyRelu", inner, alpha=_SLOPE)
        x = graph.node("Add", x, graph.convolution(inner, channels, channels, kernel))
    return x


def _aivmx_metadata() -> dict[str, str]:
    icon = f"data:image/png;base64,{base64.b64encode(plain_png('#5b6abf')).decode()}"
    speaker = {
        "name": CHARACTER,
        "icon": icon,
        "supported_languages": ["ja"],
        "uuid": UUID,
        "local_id": 0,
        "styles": [{"name": "ノーマル", "local_id": 0}],
    }
    manifest = {
        "manifest_version": "1.0",
        "name": CHARACTER,
        "model_architecture": "Style-Bert-VITS2 (JP-Extra)",
        "model_format": "ONNX",
        "uuid": UUID,
        "version": "1.0.0",
        "speakers": [speaker],
    }
    vectors = io.BytesIO()
    np.save(vectors, np.zeros((1, _STYLE), np.float32))
    parameters = {"version": "2.7.0-JP-Extra", "data": {"sampling_rate": SAMPLE_RATE}}
    return {
        "aivm_manifest": json.dumps(manifest),
        "aivm_hyper_parameters": json.dumps(parameters),
        "aivm_style_vectors": base64.b64encode(vectors.getvalue()).decode(),
    }
