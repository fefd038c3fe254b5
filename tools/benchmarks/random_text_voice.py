"""An AIVMX voice and its BERT of the size of real ones, with random weights.

Only their speed and their memory are real. The sizes are those of the published configurations:
DeBERTa V2 large up to the layer that voices read, and Style-Bert-VITS2 (JP-Extra) with its text
encoder, its flow of transformers, and HiFi-GAN at 44.1 kHz. Durations are fixed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import TensorProto, helper, load_model_from_string

from functions.compat.voicevox.speakers import plain_png
from shared.characters.manifest import ENCODERS
from shared.speech.engines.style_bert_graphs import VOCABULARY
from tools.benchmarks.random_graphs import Sketch, write_beside_mei
from tools.bundles.writer import entry
from tools.importing.wide_convolutions import widen_convolutions

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

CHARACTER: Final = "random"
SAMPLE_RATE: Final = 44_100
UUID: Final = "a0000000-0000-4000-8000-000000000000"

LAYERS: Final = 22
"""Of the BERT, up to the one that voices read."""

_TOKENS, _WIDTH, _HEADS, _FEED_FORWARD, _POSITIONS = 22_012, 1_024, 16, 4_096, 512
_PHONES, _TONES, _LANGUAGES, _STYLE = 112, 12, 3, 256
_INTER, _FILTER, _TEXT_HEADS, _TEXT_LAYERS, _FLOW_LAYERS, _FRAMES = 192, 768, 2, 6, 24, 3
_RATES, _KERNELS, _CHANNELS = (8, 8, 2, 2, 2), (16, 16, 8, 2, 2), 512
_BLOCKS, _DILATIONS, _SLOPE = (3, 7, 11), (1, 3, 5), 0.1


def write_characters(folder: Path, layers: int = LAYERS) -> None:
    """Write a folder of characters: Mei, and a voice of full size as an import makes it."""
    encoder, voice = bert(layers), _imported(synthesizer())
    digest = hashlib.sha256(encoder).hexdigest()
    (folder / ENCODERS).mkdir(parents=True)
    (folder / ENCODERS / f"{digest}.onnx").write_bytes(encoder)
    fields = {
        "engine": "style_bert_vits2",
        "sample_rate": SAMPLE_RATE,
        "takes": "text",
        "graphs": {
            "bert": {"file": "bert.onnx", "sha256": digest, "bytes": len(encoder)},
            "synthesis": entry("synthesis", voice),
        },
    }
    write_beside_mei(folder, CHARACTER, fields, {"synthesis": voice})


def bert(layers: int = LAYERS) -> bytes:
    """Make a BERT: `input_ids` [1, tokens] -> `output` [tokens, 1024]."""
    sketch = Sketch()
    table = sketch.drawn(_TOKENS, _WIDTH, fan_in=1)
    x = sketch.normalised(sketch.node("Gather", table, "input_ids"), _WIDTH)
    positions = sketch.drawn(_POSITIONS, _WIDTH, fan_in=1)
    for _ in range(layers):
        x = _bert_layer(sketch, x, positions)
    sketch.node("Reshape", x, sketch.sizes(-1, _WIDTH))
    sketch.name_last("output")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["tokens", _WIDTH])
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *map(chr, range(0x3041, 0x3100))]
    return _with_metadata(sketch.model(inputs, [output]), {VOCABULARY: "\n".join(tokens)})


def _bert_layer(sketch: Sketch, x: str, positions: str) -> str:
    split = sketch.sizes(1, -1, _HEADS, _WIDTH // _HEADS)
    query, key, value = (
        sketch.node(
            "Transpose",
            sketch.node("Reshape", sketch.linear(x, _WIDTH, _WIDTH), split),
            perm=[0, 2, 1, 3],
        )
        for _ in range(3)
    )
    scores = sketch.node("MatMul", query, sketch.node("Transpose", key, perm=[0, 1, 3, 2]))
    # Disentangled attention: what a token says to places, and what places say to it. The places
    # are constant; only an optimised graph computes their part once.
    for side in (query, key):
        places = sketch.node("Reshape", sketch.linear(positions, _WIDTH, _WIDTH), split)
        across = sketch.node("Transpose", places, perm=[0, 2, 3, 1])
        seen = sketch.node("ReduceMean", sketch.node("MatMul", side, across), sketch.sizes(-1))
        scores = sketch.node("Add", scores, seen)
    scale = sketch.constant(np.array(1 / math.sqrt(3 * _WIDTH // _HEADS), np.float32))
    shares = sketch.node("Softmax", sketch.node("Mul", scores, scale), axis=-1)
    heard = sketch.node("Transpose", sketch.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    flat = sketch.node("Reshape", heard, sketch.sizes(1, -1, _WIDTH))
    x = sketch.normalised(sketch.node("Add", x, sketch.linear(flat, _WIDTH, _WIDTH)), _WIDTH)
    inner = sketch.gelu(sketch.linear(x, _WIDTH, _FEED_FORWARD))
    return sketch.normalised(
        sketch.node("Add", x, sketch.linear(inner, _FEED_FORWARD, _WIDTH)), _WIDTH
    )


def synthesizer() -> bytes:
    """Make a voice in the engine's contract; every phone lasts three frames of 512 samples."""
    sketch = Sketch()
    x = sketch.node("Gather", sketch.drawn(_PHONES, _INTER, fan_in=1), "x_tst")
    for name, count in (("tones", _TONES), ("language", _LANGUAGES)):
        table = sketch.drawn(count, _INTER, fan_in=1)
        x = sketch.node("Add", x, sketch.node("Gather", table, name))
    features = sketch.node("Transpose", "bert", perm=[0, 2, 1])
    x = sketch.node("Add", x, sketch.linear(features, _WIDTH, _INTER))
    x = sketch.node("Add", x, sketch.linear("style_vec", _STYLE, _INTER))
    for _ in range(_TEXT_LAYERS):
        x = _text_layer(sketch, x)
    each = sketch.node("Reshape", x, sketch.sizes(1, -1, 1, _INTER))
    frames = sketch.node("Tile", each, sketch.sizes(1, 1, _FRAMES, 1))
    x = sketch.node("Reshape", frames, sketch.sizes(1, -1, _INTER))
    for _ in range(_FLOW_LAYERS):
        x = _text_layer(sketch, x)
    _decoder(sketch, sketch.signal(x, _INTER))
    sketch.name_last("output")
    return _with_metadata(sketch.model(_inputs(), [_audio()]), _aivmx())


def _inputs() -> list[Any]:
    shapes: dict[str, tuple[int, list[int | str]]] = {
        "x_tst": (TensorProto.INT64, ["batch", "phones"]),
        "x_tst_lengths": (TensorProto.INT64, ["batch"]),
        "sid": (TensorProto.INT64, ["batch"]),
        "tones": (TensorProto.INT64, ["batch", "phones"]),
        "language": (TensorProto.INT64, ["batch", "phones"]),
        "bert": (TensorProto.FLOAT, ["batch", _WIDTH, "phones"]),
        "style_vec": (TensorProto.FLOAT, ["batch", _STYLE]),
        **{
            name: (TensorProto.FLOAT, [])
            for name in ("length_scale", "sdp_ratio", "noise_scale", "noise_scale_w")
        },
        "noise": (TensorProto.FLOAT, ["values"]),
    }
    return [helper.make_tensor_value_info(name, *kind) for name, kind in shapes.items()]


def _audio() -> Any:
    return helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 1, "samples"])


def _text_layer(sketch: Sketch, x: str) -> str:
    x = sketch.normalised(sketch.node("Add", x, sketch.attention(x, _INTER, _TEXT_HEADS)), _INTER)
    inner = sketch.convolution(sketch.signal(x, _INTER), _INTER, _FILTER, 5)
    inner = sketch.convolution(sketch.node("Relu", inner), _FILTER, _INTER, 5)
    return sketch.normalised(sketch.node("Add", x, sketch.rows(inner, _INTER)), _INTER)


def _decoder(sketch: Sketch, x: str) -> None:
    x, channels = sketch.convolution(x, _INTER, _CHANNELS, 7), _CHANNELS
    for rate, kernel in zip(_RATES, _KERNELS, strict=True):
        x = sketch.upsampling(sketch.node("LeakyRelu", x, alpha=_SLOPE), channels, kernel, rate)
        channels //= 2
        blocks = [_block(sketch, x, channels, size) for size in _BLOCKS]
        x = sketch.node("Add", sketch.node("Add", blocks[0], blocks[1]), blocks[2])
        x = sketch.node("Mul", x, sketch.constant(np.array(1 / 3, np.float32)))
    x = sketch.convolution(sketch.node("LeakyRelu", x, alpha=0.01), channels, 1, 7)
    sketch.node("Tanh", x)


def _block(sketch: Sketch, x: str, channels: int, kernel: int) -> str:
    for dilation in _DILATIONS:
        inner = sketch.node("LeakyRelu", x, alpha=_SLOPE)
        inner = sketch.convolution(inner, channels, channels, kernel, dilation=dilation)
        inner = sketch.node("LeakyRelu", inner, alpha=_SLOPE)
        x = sketch.node("Add", x, sketch.convolution(inner, channels, channels, kernel))
    return x


def _aivmx() -> dict[str, str]:
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


def _imported(voice: bytes) -> bytes:
    """Do what an import does to a voice's graph; its noise is an input already."""
    model = load_model_from_string(voice)
    widen_convolutions(model)
    return _written(model)


def _with_metadata(content: bytes, metadata: dict[str, str]) -> bytes:
    model = load_model_from_string(content)
    helper.set_model_props(model, metadata)
    return _written(model)


def _written(model: ModelProto) -> bytes:
    written: bytes = model.SerializeToString()  # type: ignore[no-untyped-call] # onnx is not typed
    return written
