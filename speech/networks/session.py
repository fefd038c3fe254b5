"""ONNX Runtime sessions for graphs that are not trusted.

The runtime is imported only when the first graph is loaded: importing it starts a thread, and a
forked process (see conversion.serving.processes) would be without that thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from shared.process.quoting import printable, quoted
from speech.bundles.files import BundleError
from speech.networks.providers import Provider

if TYPE_CHECKING:
    import onnxruntime

    from speech.bundles.bundle import Graph
    from speech.networks.settings import SessionSettings
    from speech.signal.arrays import Samples

Inputs = Mapping[str, NDArray[Any]]

_NO_MEMORY = re.compile("allocate memory|bad_alloc|bad allocation|out of memory", re.IGNORECASE)
_FATAL_ONLY = 4  # errors come as exceptions


class GraphSession:
    """One loaded graph; several threads may run it at the same time.

    Args:
        graph: the verified graph.
        settings: how to run it.
        is_optimised: whether it was optimised when it was exported; the runtime then does not
            optimise it again when it loads it.
        returns_memory: whether each run gives the memory back that it worked in. A large network
            takes several times its own size; without this it keeps that for its next run.

    Attributes:
        facts: the graph's inputs and outputs.

    Raises:
        BundleError: the runtime refuses the graph, or cannot run it where the settings say.
    """

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
        options = _options(settings, is_optimised=is_optimised)
        try:
            path = None
            if settings.weights is not None and provider is Provider.CPU:
                own = _options(settings, is_optimised=is_optimised)
                path = settings.weights.prepare(graph, own)
                levels = onnxruntime.GraphOptimizationLevel
                if path is not None:
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
        self._run_options = _returning_memory(provider) if returns_memory else None

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the file, by name."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, inputs: Inputs, output: str) -> Samples:
        """Run the graph once and return one of its outputs, in single precision."""
        return np.asarray(self.run_all(inputs, [output])[0], np.float32)

    def run_all(self, inputs: Inputs, outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Run the graph once and return several of its outputs as they are.

        Raises:
            MemoryError: the machine has too little memory for it.
        """
        try:
            values = self._session.run(outputs, inputs, self._run_options)
        except Exception as error:  # its exceptions share no narrower base
            if _NO_MEMORY.search(str(error)):
                raise MemoryError(f"{self._file}: {first_line(error)}") from error
            raise
        return [np.asarray(value) for value in values]

    def try_out(self, inputs: Inputs, output: str) -> Samples:
        """Run the graph once on silent inputs and return one of its outputs.

        Raises:
            BundleError: it fails, or gives samples that are not finite.
        """
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
    """Load a graph, or return its session where another engine with these settings runs it.

    Graphs are known by their SHA-256.

    Raises:
        BundleError: the runtime refuses the graph.
    """
    key = _shared_key(graph.sha256, settings)
    return settings.sharing.get(key, lambda: GraphSession(graph, settings, returns_memory=True))


def find_session(sha256: str, settings: SessionSettings) -> GraphSession | None:
    """Return the session in which an engine with these settings runs a graph, if there is one."""
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


def _returning_memory(provider: Provider) -> onnxruntime.RunOptions:
    import onnxruntime  # noqa: PLC0415 - see above

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", provider.arena)
    return options


def first_line(error: Exception) -> str:
    """Return what the runtime says first, as an error about a graph may show it."""
    said = str(error).strip()
    return printable(said.splitlines()[0].rstrip(".")) if said else repr(error)
