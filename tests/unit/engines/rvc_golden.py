"""Reference outputs of the original tools, and the voices that they were made with.

The arrays are described in tests/data/rvc/README.md.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.speech.engines.rvc_networks import (
    OnnxSynthesizer,
    RetrievalContract,
    SynthesizerContract,
    read_retrieval,
)
from shared.speech.engines.rvc_signal import Retrieval, feature_count
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from tools.importing.graph_builder import build_retrieval
from tools.importing.retrieval_index import read_index
from tools.importing.rvc_voice import import_voice

Array = NDArray[np.float32]

DATA = Path(__file__).parents[2] / "data" / "rvc"
SEED = 11  # of the noise in the reference outputs


def case(name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of one reference output."""
    with np.load(DATA / f"{name}.npz") as arrays:
        return dict(arrays)


def synthesizer(file: str) -> OnnxSynthesizer:
    voice = import_voice(DATA / file)
    graph = _graph(file, voice.synthesizer)
    SynthesizerContract().check(graph)
    return OnnxSynthesizer(graph, GraphSession(graph, SessionSettings()), voice.sample_rate)


def retrieval(file: str) -> Retrieval:
    index = read_index((DATA / file).read_bytes())
    graph = _graph(file, build_retrieval(index))
    RetrievalContract().check(graph)
    session = GraphSession(graph, SessionSettings())
    return read_retrieval(graph, session, index.vectors.shape[1])


def _graph(file: str, content: bytes) -> Graph:
    return Graph(file, content, inspect_model(content))


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


class RecordedPitch:
    """A pitch model that says again what the original's said."""

    hears_voicing = True

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._track: Array = arrays["track"]

    def track(self, wave: Array) -> Array:
        assert len(self._track) >= len(wave) // 160
        return self._track
