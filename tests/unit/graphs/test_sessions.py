from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infra.local.configuration.options import ROOT
from shared.characters.bundle_files import BundleError
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.onnx_files import inspect_model
from shared.speech.graphs.sessions import (
    GraphSession,
    MappedWeights,
    Provider,
    SessionSettings,
    SharedNetworks,
)
from tests.support.golden_speech import FOLDER
from tests.unit.graphs.bundles import write_bundle, write_waveform_bundle
from tests.unit.graphs.small_graphs import gain_graph

if TYPE_CHECKING:
    from pathlib import Path


class Network:
    pass


def test_a_value_in_use_is_loaded_once() -> None:
    sharing = SharedNetworks()

    first = sharing.get("a", Network)

    assert sharing.get("a", Network) is first
    assert sharing.get("b", Network) is not first


def test_an_unused_value_is_released() -> None:
    sharing, loaded = SharedNetworks(), []

    def load() -> Network:
        loaded.append(1)
        return Network()

    sharing.get("a", load)
    gc.collect()
    sharing.get("a", load)

    assert len(loaded) == 2


def test_simultaneous_threads_load_a_value_once() -> None:
    sharing, loaded = SharedNetworks(), []

    def load() -> Network:
        time.sleep(0.02)
        loaded.append(1)
        return Network()

    with ThreadPoolExecutor(4) as threads:
        networks = list(threads.map(lambda _: sharing.get("a", load), range(4)))

    assert len(loaded) == 1
    assert len(set(map(id, networks))) == 1


def test_what_nobody_uses_is_not_found() -> None:
    sharing = SharedNetworks()
    network = sharing.get("a", Network)
    assert sharing.find("a") is network

    del network
    gc.collect()

    assert sharing.find("a") is None


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


CUDA = SessionSettings(provider=Provider.CUDA)


class SessionOn:
    """Stands for a session of the runtime that runs with these providers."""

    def __init__(self, *providers: str) -> None:
        self._providers = list(providers)

    def get_providers(self) -> list[str]:
        return self._providers


def test_a_gpu_is_not_replaced_by_the_cpu_unnoticed(tmp_path: Path) -> None:
    bundle = write_waveform_bundle(tmp_path, gain_graph(0.5))

    with pytest.raises(BundleError, match="expected the CUDA build of ONNX Runtime"):
        build_engine(load_character(bundle, ENGINES), CUDA)


def test_a_session_that_the_runtime_made_without_the_gpu_is_refused() -> None:
    with pytest.raises(BundleError, match="expected a GPU"):
        Provider.CUDA.require_used(SessionOn("CPUExecutionProvider"))  # type: ignore[arg-type]

    Provider.CUDA.require_used(  # the first that the runtime has is used
        SessionOn("CUDAExecutionProvider", "CPUExecutionProvider")  # type: ignore[arg-type]
    )
    Provider.CPU.require_used(SessionOn("CPUExecutionProvider"))  # type: ignore[arg-type]


def test_a_small_graph_that_was_optimised_for_a_cpu_stays_there(tmp_path: Path) -> None:
    engine = build_engine(load_character(write_bundle(tmp_path), ENGINES), CUDA)

    assert engine.sample_rate == 24_000


@pytest.mark.parametrize(
    "module", ["shared.speech.graphs.sessions", "tools.importing.synthesizer_trial"]
)
def test_the_runtime_keeps_nothing_to_send(tmp_path: Path, module: str) -> None:
    """Data to send would lie in the home folder until then."""
    code = f"import {module}, onnxruntime"
    usual = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    environment = usual | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
