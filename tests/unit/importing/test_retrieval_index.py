from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.unit.importing.indexes import Index
from tools.bundles.files import VoiceFileError
from tools.importing.graph_builder import build_retrieval
from tools.importing.retrieval_index import read_index

DATA = Path(__file__).parents[2] / "data" / "rvc"


def refusal(content: bytes, width: int | None = None) -> str:
    with pytest.raises(VoiceFileError) as refused:
        read_index(content, width)
    message = str(refused.value)
    assert "\n" not in message
    assert message.isascii()
    return message


def test_an_index_of_rvc_is_read() -> None:
    index = read_index((DATA / "v2.index").read_bytes(), 768)

    assert index.vectors.shape == (600, 768)
    assert index.centroids.shape == (15, 768)
    assert index.probes == 1
    # The tools put a vector into the cell whose centroid is nearest.
    apart = ((index.vectors[:, None] - index.centroids[None]) ** 2).sum(axis=2)
    assert np.array_equal(apart.argmin(axis=1), index.cells)


@pytest.mark.parametrize(
    "index",
    [
        Index(),
        Index(is_sparse=True),
        Index(direct_map=5),
        Index(width=256, sizes=(0, 9, 0, 0, 1)),
    ],
)
def test_vectors_come_by_their_numbers_with_their_cells(index: Index) -> None:
    read = read_index(index.content(), index.width)

    assert np.array_equal(read.vectors, index.vectors())
    assert np.array_equal(read.centroids, index.centroids())
    assert read.cells.tolist() == index.cells()


def test_an_index_without_vectors_is_refused_with_what_to_bring() -> None:
    assert refusal(Index(sizes=(0, 0)).content()) == (
        "expected an index with vectors, found none: this is a 'trained_*.index'; bring the"
        " 'added_*.index' beside it."
    )


@pytest.mark.parametrize("kind", [b"IwPQ", b"\x80\x02}q"])
def test_an_index_of_another_kind_is_refused_by_name(kind: bytes) -> None:
    message = refusal(kind + Index().content()[4:])

    assert message == (
        f"expected an index of the kind IVF,Flat as RVC writes it (b'IwFl'), found {kind!r}."
    )


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (Index(metric=0), "index: expected the Euclidean distance (1), found the metric 0."),
        (
            Index(parts={"cells": struct.pack("<QQ", 2**60, 1)}),
            f"cells: expected 1 to 65536, found {2**60}.",
        ),
        (
            Index(parts={"header": struct.pack("<iqqqBi", 4, 2**50, 0, 0, 1, 1)}),
            f"index: expected at most 1048576 vectors of at most 4096 numbers, found {2**50} of 4.",
        ),
        (
            Index(parts={"flat": b"IxHN"}),
            "expected plain centroids as RVC writes it (b'IxF2'), found b'IxHN'.",
        ),
        (
            Index(parts={"map": struct.pack("<BQ", 2, 0)}),
            "direct map: expected none or a list, found the kind 2.",
        ),
        (
            Index(parts={"lists": b"ilar" + struct.pack("<QQ", 3, 2)}),
            "bytes per vector: expected 16, found 2.",
        ),
        (
            Index(parts={"sizes": b"full" + struct.pack("<4Q", 3, 3, 0, 2**63)}),
            f"lists: expected 0 to 1048576 vectors, found {-(2**63)}.",
        ),
        (
            Index(parts={"sizes": b"full" + struct.pack("<4Q", 3, 3, 0, 1)}),
            "lists: expected 5 vectors together, found 4.",
        ),
        (
            Index(parts={"sizes": b"sprs" + struct.pack("<3Q", 2, 7, 5)}),
            "lists: expected a cell below 3, found 7.",
        ),
        (
            Index(parts={"vectors": bytes(16 * 5 + 8 * 5)}),
            "lists: expected every number below 5 once, found others.",
        ),
        (
            Index(parts={"vectors": b"\xff" * (16 * 5 + 8 * 5)}),
            "vectors: expected finite numbers, found others.",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(index: Index, message: str) -> None:
    assert refusal(index.content()) == message


def test_a_file_that_ends_too_early_is_refused_wherever_it_ends() -> None:
    content = Index().content()

    for end in range(len(content)):
        assert refusal(content[:end])


def test_a_file_with_more_behind_it_is_refused() -> None:
    assert refusal(Index().content() + b"x") == "expected the end of the file, found 1 more bytes."


def test_a_graph_gives_back_the_vectors_and_their_cells() -> None:
    index = read_index(Index(width=256, sizes=(3, 0, 9)).content())

    content = build_retrieval(index)

    session = onnxruntime.InferenceSession(content)
    vectors, centroids, cells = map(np.asarray, session.run(["vectors", "centroids", "cells"], {}))
    assert vectors.dtype == np.float16
    assert np.abs(vectors - index.vectors).max() < 2e-3
    assert np.array_equal(centroids, index.centroids)
    assert np.array_equal(cells, index.cells)


def test_numbers_that_half_precision_does_not_have_are_refused() -> None:
    index = read_index(Index().content())

    with pytest.raises(VoiceFileError, match="at most 65504"):
        build_retrieval(replace(index, vectors=index.vectors * 1e6))
