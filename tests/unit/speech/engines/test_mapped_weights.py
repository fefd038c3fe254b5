from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from speech.bundles.bundle import Graph
from speech.bundles.onnx_model import inspect_model
from speech.networks.mapped_weights import MappedWeights
from speech.networks.session import GraphSession
from speech.networks.settings import SessionSettings
from tests.support.golden_speech import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = (FOLDER / "bert.onnx").read_bytes()
GRAPH = Graph("bert.onnx", CONTENT, inspect_model(CONTENT))
IDS = np.arange(1, 20, dtype=np.int64)[None]
INPUTS = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}


def mapped(folder: Path, least_bytes: int = 0) -> SessionSettings:
    return SessionSettings(weights=MappedWeights(folder, least_bytes))


def test_a_mapped_network_says_the_same_as_one_of_its_own(tmp_path: Path) -> None:
    own = GraphSession(GRAPH, SessionSettings())

    first, second = (GraphSession(GRAPH, mapped(tmp_path)) for _ in range(2))

    for session in (first, second):
        np.testing.assert_allclose(
            session.run(INPUTS, "output"), own.run(INPUTS, "output"), atol=1e-6
        )
        assert session.metadata == own.metadata
    assert len(list(tmp_path.glob("*.onnx"))) == 1


def test_the_file_is_written_once(tmp_path: Path) -> None:
    GraphSession(GRAPH, mapped(tmp_path))
    (path,) = tmp_path.glob("*.onnx")
    before = path.stat().st_mtime_ns

    GraphSession(GRAPH, mapped(tmp_path))

    assert path.stat().st_mtime_ns == before


def test_a_small_network_is_loaded_as_usual(tmp_path: Path) -> None:
    GraphSession(GRAPH, mapped(tmp_path, len(CONTENT) + 1))

    assert not list(tmp_path.iterdir())
