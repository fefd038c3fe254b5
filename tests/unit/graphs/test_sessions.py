import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import write_bundle, write_waveform_bundle


class Network:
    pass


def test_a_value_is_kept_and_found_while_it_is_used_and_no_longer() -> None:
    sharing = SharedNetworks()

    first = sharing.get("a", Network)

    assert sharing.get("a", Network) is sharing.find("a") is first
    assert sharing.get("b", Network) is not first
    del first
    gc.collect()
    assert sharing.find("a") is None


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


CONTENT = (FOLDER / "bert.onnx").read_bytes()
GRAPH = Graph("bert.onnx", CONTENT, inspect_model(CONTENT))
IDS = np.arange(1, 20, dtype=np.int64)[None]
INPUTS = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}


def mapped(folder: Path, least_bytes: int = 0) -> SessionSettings:
    return SessionSettings(weights=MappedWeights(folder, least_bytes))


def test_a_lack_of_memory_is_told_from_a_mistake_in_the_inputs() -> None:
    text = """
        expand (float[1] wave, int64[1] length) => (float[n] audio) { audio = Expand(wave, length) }
    """
    data = small_graphs.content(small_graphs.graph(text))
    session = GraphSession(Graph("expand.onnx", data, inspect_model(data)), SessionSettings())

    def repeated(wave: NDArray[np.floating], times: int) -> list[float]:
        audio: list[float] = session.run(
            {"wave": wave, "length": np.array([times])}, "audio"
        ).tolist()
        return audio

    one = np.ones(1, np.float32)
    assert repeated(one, 3) == [1.0, 1.0, 1.0]
    with pytest.raises(MemoryError, match=r"expand\.onnx"):
        repeated(one, 1 << 45)
    with pytest.raises(Exception, match="Unexpected input data type") as found:
        repeated(np.ones(1), 3)
    assert not isinstance(found.value, MemoryError)


def test_a_mapped_network_says_the_same_as_one_of_its_own_and_is_written_once(
    tmp_path: Path,
) -> None:
    own = GraphSession(GRAPH, SessionSettings())
    GraphSession(GRAPH, mapped(tmp_path, len(CONTENT) + 1))
    assert not list(tmp_path.iterdir()), "a small network is loaded as usual"

    sessions, written = [], set()
    for _ in range(2):
        sessions.append(GraphSession(GRAPH, mapped(tmp_path)))
        written |= {(path, path.stat().st_mtime_ns) for path in tmp_path.glob("*.onnx")}

    assert len(written) == 1
    for session in sessions:
        np.testing.assert_allclose(
            session.run(INPUTS, "output"), own.run(INPUTS, "output"), atol=1e-6
        )
        assert session.metadata == own.metadata


CUDA = SessionSettings(provider=Provider.CUDA)


def test_a_gpu_is_not_replaced_by_the_cpu_unnoticed(tmp_path: Path) -> None:
    for engine in ("waveform", "harmonic"):
        (tmp_path / engine).mkdir()
    waveform = write_waveform_bundle(tmp_path / "waveform", small_graphs.gain_graph(0.5))
    harmonic = write_bundle(tmp_path / "harmonic")

    with pytest.raises(BundleError, match="expected the CUDA build of ONNX Runtime"):
        build_engine(load_character(waveform, ENGINES), CUDA)
    # A small graph that was optimised for a CPU stays there.
    assert build_engine(load_character(harmonic, ENGINES), CUDA).sample_rate == 24_000


def test_a_session_that_the_runtime_made_without_the_gpu_is_refused() -> None:
    cpu: Any = SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])
    gpu: Any = SimpleNamespace(
        get_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )

    with pytest.raises(BundleError, match="expected a GPU"):
        Provider.CUDA.require_used(cpu)
    Provider.CUDA.require_used(gpu)  # the first that the runtime has is used
    Provider.CPU.require_used(cpu)


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
