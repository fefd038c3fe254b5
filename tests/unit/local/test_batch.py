from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local.batch import Job, UsageError, plan_jobs

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return paths


def planned(*paths: Path, output: Path | None = None) -> list[Job]:
    return plan_jobs(paths, output, ".wav", "mei")


def test_a_files_result_lies_beside_it(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "hello.webm")

    assert planned(source) == [Job(source, tmp_path / "hello-mei.wav")]


def test_a_file_that_is_named_is_tried_whatever_it_is_called(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "hello.xyz")

    assert planned(source) == [Job(source, tmp_path / "hello-mei.wav")]


def test_a_folders_results_lie_in_a_folder_beside_it_in_the_same_order(tmp_path: Path) -> None:
    made(tmp_path, "in/b.MP3", "in/a.wav", "in/deep/c.flac", "in/notes.txt", "in/cover.jpg")

    assert planned(tmp_path / "in") == [
        Job(tmp_path / "in/a.wav", tmp_path / "in-mei/a.wav"),
        Job(tmp_path / "in/b.MP3", tmp_path / "in-mei/b.wav"),
        Job(tmp_path / "in/deep/c.flac", tmp_path / "in-mei/deep/c.wav"),
    ]


def test_many_files_and_folders_are_taken_together(tmp_path: Path) -> None:
    a, b = made(tmp_path, "a.wav", "in/b.wav")

    assert [job.source for job in planned(b.parent, a)] == [b, a]


@pytest.mark.parametrize("exists", [True, False])
def test_the_last_path_is_the_output_if_it_is_a_folder_or_new(
    tmp_path: Path, *, exists: bool
) -> None:
    a, b = made(tmp_path, "a.ogg", "b.ogg")
    out = tmp_path / "out"
    if exists:
        out.mkdir()

    assert planned(a, b, out) == [Job(a, out / "a.wav"), Job(b, out / "b.wav")]


def test_a_single_recordings_output_may_be_a_file(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "a.ogg")

    assert planned(source, tmp_path / "new.wav") == [Job(source, tmp_path / "new.wav")]
    assert planned(source, output=tmp_path / "x.wav") == [Job(source, tmp_path / "x.wav")]


def test_an_output_that_is_named_as_such_is_no_source(tmp_path: Path) -> None:
    a, b = made(tmp_path, "a.ogg", "b.ogg")
    out = tmp_path / "out"
    out.mkdir()

    assert [job.target for job in planned(a, b, output=out)] == [out / "a.wav", out / "b.wav"]


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.wav does not exist"):
        planned(tmp_path / "gone.wav")
    (source,) = made(tmp_path, "a.wav")
    with pytest.raises(UsageError, match=r"gone\.wav does not exist"):
        planned(tmp_path / "gone.wav", source)


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no recording in"):
        planned(tmp_path)


def test_many_recordings_cannot_become_one_file(tmp_path: Path) -> None:
    a, b = made(tmp_path, "a.wav", "b.wav")

    with pytest.raises(UsageError, match=r"cannot become .*new\.wav; name a folder"):
        planned(a, b, tmp_path / "new.wav")


def test_a_folder_cannot_become_one_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    made(tmp_path / "in", "a.wav")

    with pytest.raises(UsageError, match=r"cannot become .*new\.wav; name a folder"):
        planned(tmp_path / "in", tmp_path / "new.wav")


def test_two_results_never_get_the_same_name(tmp_path: Path) -> None:
    made(tmp_path, "in/a.wav", "in/a.mp3")

    with pytest.raises(UsageError, match="would both become"):
        planned(tmp_path / "in")


def test_a_recording_is_never_its_own_result(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "a.wav")

    with pytest.raises(UsageError, match="overwritten by its own result"):
        planned(source, output=tmp_path)
