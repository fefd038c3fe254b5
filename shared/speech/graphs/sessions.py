"""ONNX Runtime sessions for graphs that are not trusted.

The runtime is imported only when the first graph is loaded: importing it starts a thread, and a
forked process (see shared.container.supervision) would be without that thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.runtime.process import lock_file
from shared.runtime.quoting import printable, quoted
from shared.speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from pathlib import Path

    import onnxruntime

    from shared.speech.graphs.bundle import Graph
    from shared.speech.signal.sound import Samples


_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class Provider(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"

    def choices(self) -> list[str | tuple[str, dict[str, Any]]]:
        """Return the runtime's providers in the order in which it tries them for an operator."""
        if self is Provider.CPU:
            return [_CPU]
        import onnxruntime  # noqa: PLC0415 - see above

        if _CUDA not in onnxruntime.get_available_providers():
            raise BundleError(
                "PROVIDER=cuda: expected the CUDA build of ONNX Runtime, found the one for CPUs;"
                " use the image variant with CUDA, or set PROVIDER=cpu."
            )
        # Finds the libraries that the packages of NVIDIA have installed.
        onnxruntime.preload_dlls()
        # Recordings have all lengths. An exhaustive search for the fastest convolution, which is
        # the default, would be made for each new one.
        return [(_CUDA, {"cudnn_conv_algo_search": "HEURISTIC"}), _CPU]

    def require_used(self, session: onnxruntime.InferenceSession) -> None:
        """Refuse a session that the runtime has quietly made for the CPU instead."""
        if self is Provider.CUDA and _CUDA not in session.get_providers():
            raise BundleError(
                "PROVIDER=cuda: expected a GPU that ONNX Runtime can use, found none; give the"
                " service a GPU, or set PROVIDER=cpu."
            )


Inputs = Mapping[str, NDArray[Any]]

_NO_MEMORY = re.compile("allocate memory|bad_alloc|bad allocation|out of memory", re.IGNORECASE)
_FATAL_ONLY = 4  # errors come as exceptions


class GraphSession:
    """One loaded graph, which several threads may run; BundleError if the runtime refuses it."""

    def __init__(
        self,
        graph: Graph,
        settings: SessionSettings,
        *,
        is_optimised: bool = False,
        returns_memory: bool = False,
    ) -> None:
        import onnxruntime  # noqa: PLC0415 - see above

        self.facts = graph.facts
        self._file = graph.file
        provider = Provider.CPU if is_optimised else settings.provider
        providers = provider.choices()
        try:
            path = None
            if settings.weights is not None and provider is Provider.CPU:
                own = _options(settings, is_optimised=is_optimised)
                path = settings.weights.prepare(graph, own)
            options = _options(settings, is_optimised=is_optimised)
            if path is not None:
                levels = onnxruntime.GraphOptimizationLevel
                options.graph_optimization_level = levels.ORT_DISABLE_ALL
            self._session = onnxruntime.InferenceSession(
                graph.content if path is None else str(path), options, providers=providers
            )
        except Exception as error:  # its exceptions share no narrower base
            raise BundleError(
                f"{graph.file}: expected a graph that ONNX Runtime"
                f" {onnxruntime.__version__} loads, found: {first_line(error)}."
            ) from error
        provider.require_used(self._session)
        # It would keep the file's bytes, to try another provider after an error of this one.
        vars(self._session).pop("_model_bytes", None)
        self._run_options = None
        if returns_memory:
            self._run_options = onnxruntime.RunOptions()
            self._run_options.add_run_config_entry(
                "memory.enable_memory_arena_shrinkage",
                "cpu:0" if provider is Provider.CPU else "cpu:0;gpu:0",
            )

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, inputs: Inputs, output: str) -> Samples:
        return np.asarray(self.run_all(inputs, [output])[0], np.float32)

    def run_all(self, inputs: Inputs, outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Run the graph once and return several of its outputs; MemoryError if memory is short."""
        try:
            values = self._session.run(outputs, inputs, self._run_options)
        except Exception as error:  # its exceptions share no narrower base
            if _NO_MEMORY.search(str(error)):
                raise MemoryError(f"{self._file}: {first_line(error)}") from error
            raise
        return [np.asarray(value) for value in values]

    def try_out(self, inputs: Inputs, output: str) -> Samples:
        """Run the graph once on silent inputs; BundleError if it fails or is not finite."""
        try:
            audio = self.run(inputs, output)
        except Exception as error:  # its exceptions share no narrower base
            shapes = ", ".join(
                f"{quoted(name)} {list(value.shape)}" for name, value in inputs.items()
            )
            raise BundleError(
                f"{self._file}: expected a graph that takes {shapes}, found: {first_line(error)}."
            ) from error
        if not np.isfinite(audio).all():
            raise BundleError(
                f"{self._file}: output {quoted(output)}: expected finite samples for a silent"
                " recording, found others."
            )
        return audio


def shared_session(graph: Graph, settings: SessionSettings) -> GraphSession:
    """Load a graph, or return its session where another engine with these settings runs it."""
    key = _shared_key(graph.sha256, settings)
    return settings.sharing.get(key, lambda: GraphSession(graph, settings, returns_memory=True))


def find_session(sha256: str, settings: SessionSettings) -> GraphSession | None:
    return cast("GraphSession | None", settings.sharing.find(_shared_key(sha256, settings)))


def _shared_key(sha256: str, settings: SessionSettings) -> str:
    return f"session {sha256} {settings.threads} {settings.provider}"


def _options(settings: SessionSettings, *, is_optimised: bool) -> onnxruntime.SessionOptions:
    import onnxruntime  # noqa: PLC0415 - see above

    options = onnxruntime.SessionOptions()
    if is_optimised:
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
        # Planning which operators share memory takes longer than it saves: without a plan, an
        # operator's memory goes back to the arena, and the next operator takes it from there.
        options.enable_mem_reuse = False
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _FATAL_ONLY
    # A spinning thread would take processor time from the other conversions.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without this, a file that is valid as ONNX and as ORT would be checked as ONNX and run as ORT.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    return options


def first_line(error: Exception) -> str:
    """Return the first line of the runtime's error, in a form for our own."""
    said = str(error).strip()
    return printable(said.splitlines()[0].rstrip(".")) if said else repr(error)


_Shared = TypeVar("_Shared")


class SharedNetworks:
    def __init__(self) -> None:
        self._kept: WeakValueDictionary[str, object] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, key: str, load: Callable[[], _Shared]) -> _Shared:
        """Find the object of a key, which names content and way of loading, or load and keep it."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = load()
                self._kept[key] = kept
            return cast("_Shared", kept)

    def find(self, key: str) -> object | None:
        return self._kept.get(key)


LEAST_BYTES: Final = 16 << 20  # the memory of smaller graphs is not worth two files


class MappedWeights:
    """Networks in a folder, from which several processes map the same weights."""

    def __init__(self, folder: Path, least_bytes: int = LEAST_BYTES) -> None:
        self._folder = folder
        self._least_bytes = least_bytes

    def prepare(self, graph: Graph, options: onnxruntime.SessionOptions) -> Path | None:
        """Return the file from which to load a graph; None for its own content.

        One process writes the file; the others wait for it.
        """
        if len(graph.content) < self._least_bytes:
            return None
        path = self._folder / f"{graph.sha256}.onnx"
        with lock_file(path.with_suffix(".lock")):
            if not path.exists():
                self._write(graph, options, path)
        return path

    def _write(self, graph: Graph, options: onnxruntime.SessionOptions, path: Path) -> None:
        import onnxruntime  # noqa: PLC0415 - see above

        weights = path.with_suffix(".weights")
        draft = path.with_suffix(".draft")
        options.optimized_model_filepath = os.fspath(draft)
        # See onnxruntime_session_options_config_keys.h.
        external = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{external}_file_name", weights.name)
        options.add_session_config_entry(f"{external}_min_size_in_bytes", "1024")
        options.add_session_config_entry(
            "session.save_external_prepacked_constant_initializers", "1"
        )
        onnxruntime.InferenceSession(graph.content, options, providers=[_CPU])
        draft.replace(path)


@dataclass(frozen=True)
class SessionSettings:
    """Settings for running an engine's graphs; `weights` are shared with other processes."""

    threads: int = 1
    provider: Provider = Provider.CPU
    sharing: SharedNetworks = field(default_factory=SharedNetworks, compare=False)
    front_end: FrontEnd = field(default_factory=FrontEnd, compare=False)
    weights: MappedWeights | None = None
    kokoro: Path | None = None
    """The folder of Kokoro's packages; None finds them in the Python environment."""
