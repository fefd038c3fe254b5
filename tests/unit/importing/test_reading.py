from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from importing.files.errors import VoiceFileError
from importing.files.reading import read_file

if TYPE_CHECKING:
    from pathlib import Path

MOST = 64 << 20


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes no room on the disk

    tracemalloc.start()
    with pytest.raises(VoiceFileError, match=f"expected at most {MOST} bytes, found more"):
        read_file(path, MOST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < MOST / 10


def test_a_file_of_just_that_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    path.write_bytes(b"0123456789")

    assert read_file(path, 10) == b"0123456789"
    with pytest.raises(VoiceFileError, match="expected at most 9 bytes"):
        read_file(path, 9)
