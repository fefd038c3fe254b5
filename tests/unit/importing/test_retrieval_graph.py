from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from importing.files.errors import VoiceFileError
from importing.rvc.index_file import read_index
from importing.rvc.retrieval_graph import build_retrieval
from speech.bundles.onnx_model import inspect_model
from tests.unit.importing.indexes import Index


def test_a_graph_gives_back_the_vectors_and_their_cells() -> None:
    index = read_index(Index(width=256, sizes=(3, 0, 9)).content())

    content = build_retrieval(index)

    session = onnxruntime.InferenceSession(content)
    vectors, centroids, cells = map(np.asarray, session.run(["vectors", "centroids", "cells"], {}))
    assert vectors.dtype == np.float16
    assert np.abs(vectors - index.vectors).max() < 2e-3
    assert np.array_equal(centroids, index.centroids)
    assert np.array_equal(cells, index.cells)


def test_the_graph_says_its_sizes() -> None:
    facts = inspect_model(build_retrieval(read_index(Index(width=256, sizes=(3, 0, 9)).content())))

    assert not facts.inputs
    shapes = {name: str(tensor) for name, tensor in facts.outputs.items()}
    assert shapes == {
        "vectors": "float16 [12, 256]",
        "centroids": "float32 [3, 256]",
        "cells": "int64 [12]",
    }


def test_numbers_that_half_precision_does_not_have_are_refused() -> None:
    index = read_index(Index().content())

    with pytest.raises(VoiceFileError, match="at most 65504"):
        build_retrieval(replace(index, vectors=index.vectors * 1e6))
