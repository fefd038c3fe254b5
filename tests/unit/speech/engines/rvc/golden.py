"""Reference outputs of the original tools, and stand-ins for the networks that they were made with.

The arrays are described in tests/data/rvc/README.md.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from speech.engines.rvc.features import feature_count
from speech.engines.rvc.retrieval import Retrieval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from speech.engines.rvc.pitch import Contour
    from speech.engines.rvc.voice import Noise

    Array = NDArray[np.float32]

DATA = Path(__file__).parents[4] / "data" / "rvc"
SEED = 11  # of the noise in the reference outputs


def case(name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of one reference output."""
    with np.load(DATA / f"{name}.npz") as arrays:
        return dict(arrays)


def synthesizer_graph() -> bytes:
    """Make the graph of `v2-f0-40k` whose noise is an input instead of random."""
    model = onnx.load(DATA / "v2-f0-40k.official-2024-11.onnx")
    for place, node in reversed(list(enumerate(model.graph.node))):
        if node.op_type == "RandomNormalLike":
            model.graph.node[place].CopyFrom(helper.make_node("Identity", ["noise"], node.output))
        elif node.op_type == "RandomUniform":
            zero = helper.make_tensor("zero", TensorProto.FLOAT, [1, 1, 1], [0.0])
            model.graph.node[place].CopyFrom(
                helper.make_node("Constant", [], node.output, value=zero)
            )
    model.graph.input.append(
        helper.make_tensor_value_info("noise", TensorProto.FLOAT, [1, "samples", 1])
    )
    return bytes(model.SerializeToString())


def retrieval_of(path: Path) -> Retrieval:
    """Read a retrieval file as RVC's tools write it; it is known to be well-formed."""
    return Retrieval(*index_arrays(path))


def index_arrays(path: Path) -> tuple[Array, Array, NDArray[np.int64]]:
    """Read the vectors, centroids and cells of a retrieval file."""
    content = path.read_bytes()
    at = 4

    def take(form: str) -> tuple[Any, ...]:
        nonlocal at
        values = struct.unpack_from(f"<{form}", content, at)
        at += struct.calcsize(f"<{form}")
        return values

    def floats(count: int, width: int) -> Array:
        nonlocal at
        values = np.frombuffer(content, np.float32, count * width, at).reshape(count, width)
        at += values.nbytes
        return values

    width, _, _, _, _, _ = take("iqqqBi")
    cells, _ = take("QQ")
    at += 4 + struct.calcsize("<iqqqBi")
    centroids = floats(take("Q")[0] // width, width)
    at += 1 + 8 + 4 + 8 + 8 + 4
    sizes = take(f"{take('Q')[0]}Q")
    vectors = []
    for size in sizes:
        vectors.append(floats(size, width))
        at += 8 * size
    assert len(sizes) == cells
    assert at == len(content)
    return np.concatenate(vectors), centroids, np.repeat(np.arange(cells), sizes)


class RecordedEncoder:
    """A content encoder that says again, piece by piece, what the original's said."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._piece = 0

    def encode(self, wave: Array) -> Array:
        features: Array = self._arrays[f"content{self._piece}"]
        self._piece += 1
        assert len(features) == feature_count(len(wave))
        return features


class GraphSynthesizer:
    """A synthesizer from its graph, without anything around it."""

    harmonics = 1

    def __init__(self, content: bytes, sample_rate: int) -> None:
        self._session = onnxruntime.InferenceSession(content)
        self.sample_rate = sample_rate
        self.contours: list[Contour] = []

    def speak(self, features: Array, contour: Contour | None, speaker: int, noise: Noise) -> Array:
        assert contour is not None
        self.contours.append(contour)
        inputs = {
            "phone": features[None],
            "phone_lengths": np.array([len(features)]),
            "pitch": contour.coarse[None],
            "pitchf": contour.hertz[None],
            "ds": np.array([speaker]),
            "rnd": noise.prior[None],
            "noise": noise.source[None],
        }
        return np.asarray(self._session.run(["audio"], inputs)[0], np.float32).ravel()
