from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from functions.compat.service.shared_files import run_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_folder_is_removed_at_the_end_and_what_a_killed_run_left_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    foreign, left = tmp_path / "compat-of-somebody", tmp_path / "compat-of-a-killed-run"
    foreign.mkdir()  # without a lock, so it is nobody's of ours
    left.mkdir()
    (left / "lock").touch()

    with run_folder() as folder:
        assert set(tmp_path.iterdir()) == {foreign, folder}
        with run_folder() as other:
            assert set(tmp_path.iterdir()) == {foreign, folder, other}
        # At its end a forked process leaves the folder to its parent.
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            with run_folder() as inherited:
                patch.undo()
        assert set(tmp_path.iterdir()) == {foreign, folder, inherited}

    assert set(tmp_path.iterdir()) == {foreign, inherited}
