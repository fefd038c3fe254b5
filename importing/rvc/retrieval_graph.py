"""The vectors of a voice's recordings as an ONNX graph without inputs, as bundles carry them.

In this form they go the same way as every other part of a bundle: size, SHA-256 and content are
checked before anything is made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from importing.files.errors import VoiceFileError
from importing.files.graph_builder import FLOAT, INT64, GraphBuilder

if TYPE_CHECKING:
    from importing.rvc.index_file import RetrievalIndex


def build_retrieval(index: RetrievalIndex) -> bytes:
    """Write the graph.

    Its outputs are `vectors`, float16 [N, F]; `centroids`, float32 [M, F]; and `cells`, int64 [N].
    Half precision moves a vector by less than a thousandth of its length and halves the file.

    Raises:
        VoiceFileError: a number of the vectors is too large for half precision.
    """
    with np.errstate(over="ignore"):
        vectors = index.vectors.astype(np.float16)
    if not np.isfinite(vectors).all():
        raise VoiceFileError("vectors: expected numbers of at most 65504, found larger ones.")
    graph = GraphBuilder()
    count, width = vectors.shape
    cells = index.cells.astype(np.int64)
    graph.output(graph.constant(vectors), "vectors", TensorProto.FLOAT16, (count, width))
    graph.output(graph.constant(index.centroids), "centroids", FLOAT, index.centroids.shape)
    graph.output(graph.constant(cells), "cells", INT64, (count,))
    return graph.model("retrieval", {})
