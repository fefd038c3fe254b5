"""ONNX Runtime sessions for graphs that are not trusted.

The runtime is imported with the first graph: it starts a thread of its own as soon as that, which
would not survive the fork of a process (see functions.convert.processes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from speech.engines.base import BundleError, Graph, Samples, SessionSettings

if TYPE_CHECKING:
    import onnxruntime

_FATAL_ONLY = 4  # errors come as exceptions


class GraphSession:
    """One loaded graph; threads run it at the same time, without a lock.

    Args:
        graph: the verified graph.
        settings: how to run it.
        is_optimised: whether it was made fast when it was exported, so that the runtime can save
            itself that work when it loads it.

    Raises:
        BundleError: the runtime refuses the graph.
    """

    def __init__(
        self, graph: Graph, settings: SessionSettings, *, is_optimised: bool = False
    ) -> None:
        import onnxruntime  # noqa: PLC0415 - see above

        self._file = graph.file
        try:
            self._session = onnxruntime.InferenceSession(
                graph.content,
                _options(settings, is_optimised=is_optimised),
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # its exceptions share no narrower base
            raise BundleError(
                f"{graph.file}: expected a graph that ONNX Runtime"
                f" {onnxruntime.__version__} loads, found: {_first_line(error)}."
            ) from error

    def run(self, inputs: dict[str, Samples], output: str) -> Samples:
        """Run the graph once and return one of its outputs."""
        return np.asarray(self._session.run([output], inputs)[0], np.float32)

    def try_out(self, inputs: dict[str, Samples], output: str) -> Samples:
        """Run the graph once, on silence, to see whether it works.

        Raises:
            BundleError: it does not, and why.
        """
        try:
            audio = self.run(inputs, output)
        except Exception as error:  # its exceptions share no narrower base
            shapes = ", ".join(f"'{name}' {list(value.shape)}" for name, value in inputs.items())
            raise BundleError(
                f"{self._file}: expected a graph that takes {shapes}, found: {_first_line(error)}."
            ) from error
        if not np.isfinite(audio).all():
            raise BundleError(
                f"{self._file}: output '{output}': expected finite samples for a silent recording,"
                " found others."
            )
        return audio


def _options(settings: SessionSettings, *, is_optimised: bool) -> onnxruntime.SessionOptions:
    import onnxruntime  # noqa: PLC0415 - see above

    options = onnxruntime.SessionOptions()
    if is_optimised:
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
        # Planning who may take whose memory takes longer than it saves: what an operator is done
        # with goes back to the arena, and from there to the next, without a plan as well.
        options.enable_mem_reuse = False
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _FATAL_ONLY
    # A thread that spins takes the processor from the other conversions.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without this, bytes that pass as both formats would be checked as one and run as the other.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    return options


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else repr(error)
