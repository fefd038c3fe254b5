"""The same graph with smaller weights: what that saves, and what is heard of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from benchmarks.convert.graph_parts import float32_copy

if TYPE_CHECKING:
    import numpy.typing as npt

    from benchmarks.convert.sessions import Inputs

_LEAST_VALUES: Final = 1_000
_INT8_MOST: Final = 127
_WINDOW: Final = 1024
_AUDIBLE_DB: Final = 40.0

Audio = "npt.NDArray[np.float32]"


def variants(content: bytes) -> dict[str, bytes]:
    """Return a graph in every precision of weights there is to choose from."""
    whole = float32_copy(content)
    return {
        "float32": whole,
        "float16, widened at each run": _with_weights(whole, _halve),
        "int8 per channel, widened at each run": _with_weights(whole, _quantise),
        "int8, also in the convolutions": _dynamically_quantised(whole),
    }


def _with_weights(content: bytes, store: Any) -> bytes:
    model = onnx.load_from_string(content)
    used = {node.input[1] for node in model.graph.node if node.op_type == "Conv"}
    kept, nodes = [], []
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if weight.name in used and values.size >= _LEAST_VALUES:
            stored, node = store(weight.name, values)
            kept += stored
            nodes.append(node)
        else:
            kept.append(weight)
    nodes += model.graph.node
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)
    serialised: bytes = model.SerializeToString()
    return serialised


def _halve(name: str, values: npt.NDArray[np.float32]) -> tuple[list[Any], Any]:
    half = onnx.numpy_helper.from_array(values.astype(np.float16), f"{name}.half")
    node = onnx.helper.make_node(
        "Cast", [half.name], [name], name=f"{name}.cast", to=onnx.TensorProto.FLOAT
    )
    return [half], node


def _quantise(name: str, values: npt.NDArray[np.float32]) -> tuple[list[Any], Any]:
    scales = np.abs(values).reshape(len(values), -1).max(axis=1) / _INT8_MOST
    steps = values / scales.reshape(-1, *(1,) * (values.ndim - 1))
    stored = onnx.numpy_helper.from_array(np.rint(steps).astype(np.int8), f"{name}.int8")
    scale = onnx.numpy_helper.from_array(scales.astype(np.float32), f"{name}.scale")
    node = onnx.helper.make_node(
        "DequantizeLinear", [stored.name, scale.name], [name], name=f"{name}.wide", axis=0
    )
    return [stored, scale], node


def _dynamically_quantised(content: bytes) -> bytes:
    # Imported here: it is large, and only this needs it.
    from onnxruntime.quantization.quant_utils import QuantType  # noqa: PLC0415
    from onnxruntime.quantization.quantize import quantize_dynamic  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(content)
        quantize_dynamic(before, after, op_types_to_quantize=["Conv"], weight_type=QuantType.QInt8)
        return after.read_bytes()


def signal_to_difference_db(
    wanted: npt.NDArray[np.float32], found: npt.NDArray[np.float32]
) -> float | None:
    """Return how far the difference of two signals lies below the first; None if they are one."""
    difference = float(np.square(found - wanted, dtype=np.float64).sum())
    if difference == 0:
        return None
    return float(10 * np.log10(np.square(wanted, dtype=np.float64).sum() / difference))


def log_spectral_distance_db(
    wanted: npt.NDArray[np.float32], found: npt.NDArray[np.float32], hop: int
) -> float:
    """Return by how many dB the spectra of the louder frames differ, root mean square."""
    first, second = _spectra_db(wanted, hop), _spectra_db(found, hop)
    peaks = first.max(axis=1)
    loud = peaks > peaks.max() - _AUDIBLE_DB
    differences = np.square(first[loud] - second[loud]).mean(axis=1)
    return float(np.sqrt(differences).mean())


def _spectra_db(samples: npt.NDArray[np.float32], hop: int) -> npt.NDArray[np.float64]:
    padded = np.pad(samples, _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop]
    spectra = np.abs(np.fft.rfft(frames * np.hanning(_WINDOW)))
    floor = 1e-4 * spectra.max()
    decibels: npt.NDArray[np.float64] = 20 * np.log10(spectra + floor)
    return decibels


def spoken(session: Any, inputs: Inputs) -> npt.NDArray[np.float32]:
    """Run a graph and return its samples."""
    return np.asarray(session.run(["audio"], inputs)[0], np.float32).ravel()
