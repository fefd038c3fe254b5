"""Networks whose weights all processes of a machine share.

ONNX Runtime copies a network's weights into memory that belongs to the process, once more in an
order that suits its kernels. Here the first process that loads a network writes it down as the
runtime has optimised it, weights in that order included, and every process maps this file: so the
weights are in memory once, and whoever comes second starts sooner.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from shared.process.locking import locked

if TYPE_CHECKING:
    from pathlib import Path

    import onnxruntime

    from speech.bundles.bundle import Graph

LEAST_BYTES: Final = 16 << 20
"""Smaller graphs are loaded as usual: their memory is not worth two files."""

_LEAST_WEIGHT_BYTES: Final = 1024


class MappedWeights:
    """Keeps networks for all processes that are given the same folder.

    Args:
        folder: where they lie; it belongs to the service alone, and is removed by whoever made it.
        least_bytes: the smallest graph that is shared.
    """

    def __init__(self, folder: Path, least_bytes: int = LEAST_BYTES) -> None:
        self._folder = folder
        self._least_bytes = least_bytes

    def prepare(self, graph: Graph, options: onnxruntime.SessionOptions) -> Path | None:
        """Return the file from which a graph is to be loaded; None for its own content.

        One process writes the file; the others wait for it.

        Args:
            graph: a verified one.
            options: with which the graph is optimised.

        Raises:
            Exception: the runtime refuses the graph.
        """
        if len(graph.content) < self._least_bytes:
            return None
        path = self._folder / f"{graph.sha256}.onnx"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                self._write(graph, options, path)
        return path

    def _write(self, graph: Graph, options: onnxruntime.SessionOptions, path: Path) -> None:
        import onnxruntime  # noqa: PLC0415 - see speech.networks.session

        weights = path.with_suffix(".weights")
        draft = path.with_suffix(".draft")
        options.optimized_model_filepath = os.fspath(draft)
        # See onnxruntime_session_options_config_keys.h.
        entries = {
            "session.optimized_model_external_initializers_file_name": weights.name,
            "session.optimized_model_external_initializers_min_size_in_bytes": str(
                _LEAST_WEIGHT_BYTES
            ),
            "session.save_external_prepacked_constant_initializers": "1",
        }
        for name, value in entries.items():
            options.add_session_config_entry(name, value)
        onnxruntime.InferenceSession(graph.content, options, providers=["CPUExecutionProvider"])
        draft.replace(path)
