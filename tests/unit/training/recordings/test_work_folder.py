"""What a training keeps, and what it says about its progress."""

from io import StringIO
from pathlib import Path

import pytest

from tools.training.recordings.work_folder import RecordingsError, TrainingProgress, WorkFolder


def test_what_was_made_is_kept_until_the_recordings_the_choices_or_those_beside_change(
    tmp_path: Path,
) -> None:
    recordings, others = tmp_path / "recordings", tmp_path / "others"
    for folder in (recordings, others):
        folder.mkdir()
        (folder / "a.wav").write_bytes(b"1")
    made: list[int] = []

    def times_made(choices: str = "seed 1") -> int:
        work = WorkFolder.open(tmp_path / "work", recordings, choices, [None, others])
        work.kept("thing", lambda: made.append(1))
        return len(made)

    assert times_made() == times_made() == 1
    (recordings / "a.wav").write_bytes(b"12")
    assert times_made() == times_made() == 2
    (others / "a.wav").write_bytes(b"12")
    assert times_made() == 3
    assert times_made("seed 2") == 4


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
