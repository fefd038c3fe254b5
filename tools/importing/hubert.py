"""ContentVec and HuBERT as PyTorch files (`hubert_base.pt`), made into ONNX without PyTorch.

Layouts: fairseq's, which RVC's `hubert_base.pt` has (fairseq/models/hubert/hubert.py and
wav2vec/wav2vec2.py), and that of Transformers (`pytorch_model.bin`), whose tensors have other
names. The network: Hsu et al., "HuBERT: Self-Supervised Speech Representation Learning by Masked
Prediction of Hidden Units", 2021, in its base form, which normalises after each block.
"""

from __future__ import annotations

import io
import math
import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError
from tools.importing.graph_builder import FLOAT, GraphBuilder
from tools.importing.torch_archive import TorchArchive, read_tensors
from tools.importing.torch_pickle import TensorPlace, read_pickle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Weights = Mapping[str, NDArray[np.float32]]

_STRIDES: Final = (5, 2, 2, 2, 2, 2, 2)
_HEAD: Final = 64
_POSITION_GROUPS: Final = 16
_EPSILON: Final = 1e-5
_LAYER_OF_V1: Final = 9
_LAYER_OF_V2: Final = 12
_PARTS: Final = (
    "feature_extractor.",
    "layer_norm.",
    "post_extract_proj.",
    "encoder.",
    "final_proj.",
)
_MAGICS: Final = (b"PK\x03\x04", b"\x80")

_OTHER_NAMES: Final = (
    (r"^hubert\.", ""),
    (r"^feature_extractor\.conv_layers\.(\d+)\.conv\.", r"feature_extractor.conv_layers.\1.0."),
    (r"^feature_extractor\.conv_layers\.0\.layer_norm\.", "feature_extractor.conv_layers.0.2."),
    (r"^feature_projection\.layer_norm\.", "layer_norm."),
    (r"^feature_projection\.projection\.", "post_extract_proj."),
    (r"^encoder\.pos_conv_embed\.conv\.", "encoder.pos_conv.0."),
    (r"parametrizations\.weight\.original0$", "weight_g"),
    (r"parametrizations\.weight\.original1$", "weight_v"),
    (r"^(encoder\.layers\.\d+)\.attention\.", r"\1.self_attn."),
    (r"^(encoder\.layers\.\d+)\.layer_norm\.", r"\1.self_attn_layer_norm."),
    (r"^(encoder\.layers\.\d+)\.feed_forward\.intermediate_dense\.", r"\1.fc1."),
    (r"^(encoder\.layers\.\d+)\.feed_forward\.output_dense\.", r"\1.fc2."),
)
"""The names of Transformers, and fairseq's for the same."""

_OWN_OBJECTS: Final = re.compile(
    r"fairseq\..*|omegaconf\..*|argparse Namespace|typing Any|collections defaultdict"
    r"|(builtins|__builtin__) (dict|list|int|float|str|bool)"
)
"""The objects that fairseq writes beside the tensors: settings and dictionaries."""


def is_torch_file(content: bytes) -> bool:
    """Return whether a file is one of PyTorch, of whichever age, and not an ONNX file."""
    return content.startswith(_MAGICS)


def hubert_as_onnx(content: bytes) -> bytes:
    """Make an ONNX file of an encoder.

    Its input is `audio`, float32 [1, N] at 16 kHz; its outputs are `units9`, float32 [1, T, 256],
    which RVC voices of version 1 take, where the file has the projection for it, and `unit12`,
    float32 [1, T, 768], for version 2. T is (N - 400) // 320 + 1.
    """
    with closing(TorchArchive(io.BytesIO(content))) as archive:
        places = tensor_places(read_pickle(archive.pickle(), passed_over=_OWN_OBJECTS))
        weights = read_tensors(archive, places)
    return _Encoder(weights).model()


def tensor_places(content: object) -> dict[str, TensorPlace]:
    """Find the network's tensors, by fairseq's names."""
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        content = content["model"]
    if not isinstance(content, dict):
        raise VoiceFileError("expected the tensors of ContentVec or HuBERT by name, found none.")
    if "weight" in content and "config" in content:
        raise VoiceFileError(
            "expected ContentVec or HuBERT, found an RVC voice: nox -s character -- import FILE."
        )
    places: dict[str, TensorPlace] = {}
    for key, place in content.items():
        if isinstance(key, str) and isinstance(place, TensorPlace):
            name = key
            for pattern, other in _OTHER_NAMES:
                name = re.sub(pattern, other, name)
            if name.startswith(_PARTS):
                places[name] = place
    return places


class _Encoder:
    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._graph = GraphBuilder()

    def model(self) -> bytes:
        graph = self._graph
        self.check()
        x = self.transformer_input(graph.input("audio", FLOAT, [1, "samples"]))
        width = len(self.take("encoder.layer_norm.weight"))
        for layer in range(_LAYER_OF_V2):
            x = self.block(f"encoder.layers.{layer}", x, width)
            if layer + 1 == _LAYER_OF_V1 and "final_proj.weight" in self._weights:
                units = self.linear("final_proj", x)
                size = len(self.take("final_proj.bias"))
                graph.output(units, "units9", FLOAT, [1, "frames", size])
        graph.output(x, "unit12", FLOAT, [1, "frames", width])
        return graph.model("hubert", {"made_of": "a PyTorch file of HuBERT"})

    def check(self) -> None:
        layers = {
            int(found[1])
            for name in self._weights
            if (found := re.match(r"encoder\.layers\.(\d+)\.", name))
        }
        if layers != set(range(_LAYER_OF_V2)):
            raise VoiceFileError(
                f"expected HuBERT in its base form with {_LAYER_OF_V2} layers, found {len(layers)}."
            )
        width = len(self.take("encoder.layer_norm.weight"))
        if width % _HEAD:
            raise VoiceFileError(f"expected heads of {_HEAD} numbers each, found {width} in all.")

    def take(self, name: str) -> NDArray[np.float32]:
        if name not in self._weights:
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected one of HuBERT in its base form, found none."
            )
        return self._weights[name]

    def _constant(self, name: str) -> str:
        return self._graph.constant(self.take(name))

    def transformer_input(self, audio: str) -> str:
        """[1, N] -> [1, T, W]."""
        graph = self._graph
        x = graph.node("Unsqueeze", audio, graph.sizes(1))
        for layer, stride in enumerate(_STRIDES):
            name = f"feature_extractor.conv_layers.{layer}"
            x = graph.node("Conv", x, self._constant(f"{name}.0.weight"), strides=[stride])
            if layer == 0:
                # One group for each channel.
                scale, shift = self._constant(f"{name}.2.weight"), self._constant(f"{name}.2.bias")
                x = graph.node("InstanceNormalization", x, scale, shift, epsilon=_EPSILON)
            x = self.gelu(x)
        x = graph.node("Transpose", x, perm=[0, 2, 1])
        x = self.linear("post_extract_proj", self.normalised("layer_norm", x))
        x = graph.node("Add", x, self.positions(x))
        return self.normalised("encoder.layer_norm", x)

    def positions(self, x: str) -> str:
        graph, name = self._graph, "encoder.pos_conv.0"
        direction, length = self.take(f"{name}.weight_v"), self.take(f"{name}.weight_g")
        norm = np.sqrt(np.sum(direction.astype(np.float64) ** 2, axis=(0, 1), keepdims=True))
        if not norm.all():
            raise VoiceFileError(f"tensor '{name}.weight_v': expected no column of zeros.")
        weight = (direction * (length / norm)).astype(np.float32)
        kernel = weight.shape[2]
        # As many frames as before: with an even kernel one less is added at the end.
        pads = [kernel // 2, kernel // 2 - (1 - kernel % 2)]
        y = graph.node("Transpose", x, perm=[0, 2, 1])
        kernels, bias = graph.constant(weight), self._constant(f"{name}.bias")
        y = graph.node("Conv", y, kernels, bias, group=_POSITION_GROUPS, pads=pads)
        return graph.node("Transpose", self.gelu(y), perm=[0, 2, 1])

    def block(self, name: str, x: str, width: int) -> str:
        graph = self._graph
        attended = graph.node("Add", x, self.attention(f"{name}.self_attn", x, width))
        x = self.normalised(f"{name}.self_attn_layer_norm", attended)
        forwarded = self.linear(f"{name}.fc2", self.gelu(self.linear(f"{name}.fc1", x)))
        return self.normalised(f"{name}.final_layer_norm", graph.node("Add", x, forwarded))

    def attention(self, name: str, x: str, width: int) -> str:
        """[1, T, W] -> [1, T, W]."""
        graph = self._graph
        shape = graph.sizes(1, -1, width // _HEAD, _HEAD)
        query, key, value = (
            graph.node("Reshape", self.linear(f"{name}.{part}_proj", x), shape) for part in "qkv"
        )
        query = graph.node("Mul", query, graph.number(1.0 / math.sqrt(_HEAD)))
        query = graph.node("Transpose", query, perm=[0, 2, 1, 3])
        scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 2, 3, 1]))
        weights = graph.node("Softmax", scores, axis=-1)
        heard = graph.node("MatMul", weights, graph.node("Transpose", value, perm=[0, 2, 1, 3]))
        heard = graph.node("Transpose", heard, perm=[0, 2, 1, 3])
        together = graph.node("Reshape", heard, graph.sizes(1, -1, width))
        return self.linear(f"{name}.out_proj", together)

    def linear(self, name: str, x: str) -> str:
        graph = self._graph
        weight = np.ascontiguousarray(self.take(f"{name}.weight").T)
        product = graph.node("MatMul", x, graph.constant(weight))
        return graph.node("Add", product, self._constant(f"{name}.bias"))

    def normalised(self, name: str, x: str) -> str:
        scale, shift = self._constant(f"{name}.weight"), self._constant(f"{name}.bias")
        return self._graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=_EPSILON)

    def gelu(self, x: str) -> str:
        graph = self._graph
        bent = graph.node("Erf", graph.node("Mul", x, graph.number(1.0 / math.sqrt(2.0))))
        share = graph.node("Mul", graph.node("Add", bent, graph.number(1.0)), graph.number(0.5))
        return graph.node("Mul", x, share)
