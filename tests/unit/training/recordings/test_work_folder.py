"""What a training keeps, and what it says about its progress."""

from io import StringIO
from pathlib import Path

import pytest

from tools.training.recordings.work_folder import RecordingsError, TrainingProgress, WorkFolder


def test_what_was_made_is_kept_until_the_recordings_change(tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    (recordings / "a.wav").write_bytes(b"1")
    made = []

    def make() -> str:
        made.append(1)
        return "made"

    for _ in range(2):
        work = WorkFolder.open(tmp_path / "work", recordings, "seed 1")
        assert work.kept("thing", make) == "made"
    assert len(made) == 1
    (recordings / "a.wav").write_bytes(b"12")
    WorkFolder.open(tmp_path / "work", recordings, "seed 1").kept("thing", make)
    assert len(made) == 2
    WorkFolder.open(tmp_path / "work", recordings, "seed 2").kept("thing", make)
    assert len(made) == 3


def test_what_was_made_is_kept_until_the_recordings_beside_change(tmp_path: Path) -> None:
    recordings, others = tmp_path / "recordings", tmp_path / "others"
    for folder in (recordings, others):
        folder.mkdir()
        (folder / "a.wav").write_bytes(b"1")
    made = []
    for content in (b"1", b"12", b"12"):
        if (others / "a.wav").read_bytes() != content:
            (others / "a.wav").write_bytes(content)
        work = WorkFolder.open(tmp_path / "work", recordings, "", [None, others])
        work.kept("thing", lambda: made.append(1))
    assert len(made) == 2


def test_a_folder_that_is_not_there_removes_nothing_that_was_made(tmp_path: Path) -> None:
    recordings, missing = tmp_path / "recordings", tmp_path / "othres"
    recordings.mkdir()
    work = WorkFolder.open(tmp_path / "work", recordings, "")
    work.kept("thing", lambda: "made")
    for folders in ((recordings, [missing]), (missing, [])):
        with pytest.raises(RecordingsError, match="othres: expected a folder with recordings"):
            WorkFolder.open(tmp_path / "work", folders[0], "", folders[1])
    assert work.has("thing")


def test_parts_of_recordings_are_for_their_owner_alone(tmp_path: Path) -> None:
    work = WorkFolder.open(tmp_path / "work", tmp_path, "")
    assert work.path.stat().st_mode & 0o077 == 0


def test_the_time_left_follows_from_the_steps_since_a_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("tools.training.recordings.work_folder.time.monotonic", lambda: now[0])
    out = StringIO()
    progress = TrainingProgress(2, out)
    progress.begin("learning")
    for step in (501, 520):
        now[0] += 20
        progress.report(step, 600, "well")
    # 20 steps since the break took 40 s; 80 are left.
    assert out.getvalue().splitlines()[-1] == "[1/2] learning  87%, 2:40 left, well"
