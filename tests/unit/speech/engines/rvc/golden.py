"""Reference outputs of the original tools, and the voices that they were made with.

The arrays are described in tests/data/rvc/README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from importing.rvc.index_file import read_index
from importing.rvc.retrieval_graph import build_retrieval
from importing.rvc.voices import import_voice
from speech.bundles.bundle import Graph
from speech.bundles.onnx_model import inspect_model
from speech.engines.rvc.features import feature_count
from speech.engines.rvc.networks import (
    OnnxSynthesizer,
    RetrievalContract,
    SynthesizerContract,
    read_retrieval,
)
from speech.networks.session import GraphSession
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from speech.engines.rvc.retrieval import Retrieval

    Array = NDArray[np.float32]

DATA = Path(__file__).parents[4] / "data" / "rvc"
SEED = 11  # of the noise in the reference outputs


def case(name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of one reference output."""
    with np.load(DATA / f"{name}.npz") as arrays:
        return dict(arrays)


def synthesizer(file: str) -> OnnxSynthesizer:
    """Import a voice and load its synthesizer."""
    voice = import_voice(DATA / file)
    graph = _graph(file, voice.synthesizer)
    SynthesizerContract().check(graph)
    return OnnxSynthesizer(graph, GraphSession(graph, SessionSettings()), voice.sample_rate)


def retrieval(file: str) -> Retrieval:
    """Import the vectors of an index and load them."""
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
