from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from speech.bundles import preloading
from speech.bundles.preloading import PreloadedGraphs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "mei" / "harmonic.onnx"
    path.parent.mkdir()
    path.write_bytes(b"a graph")
    return path


def test_what_was_read_ahead_is_given_out_with_its_hash_as_it_was_then(
    tmp_path: Path, graph: Path
) -> None:
    with ThreadPoolExecutor(1) as thread:
        preloaded = PreloadedGraphs(tmp_path, thread)
    graph.write_bytes(b"another")

    content = preloaded.read(graph)

    assert content.data == b"a graph"
    assert content.sha256 == hashlib.sha256(b"a graph").hexdigest()


def test_what_was_given_out_is_not_kept(tmp_path: Path, graph: Path) -> None:
    preloaded = PreloadedGraphs(tmp_path, ThreadPoolExecutor(1))
    preloaded.read(graph)
    graph.write_bytes(b"another")

    assert preloaded.read(graph).data == b"another"


def test_a_file_beyond_the_limit_is_read_when_it_is_asked_for(
    tmp_path: Path, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading, "MOST_BYTES", 3)

    with ThreadPoolExecutor(1) as thread:
        preloaded = PreloadedGraphs(tmp_path, thread)
    graph.write_bytes(b"another")

    assert preloaded.read(graph).data == b"another"


def test_a_file_that_is_gone_is_an_error_of_who_asks_for_it(tmp_path: Path, graph: Path) -> None:
    preloaded = PreloadedGraphs(tmp_path, ThreadPoolExecutor(1))
    preloaded.close()
    graph.unlink()

    with pytest.raises(FileNotFoundError):
        preloaded.read(graph)
