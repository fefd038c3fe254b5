from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local.commands.batch import (
    BatchJob,
    UsageError,
    plan_jobs,
)

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, *names: str) -> None:
    """Make empty files, and folders for the names that end with a slash."""
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()


def planned(folder: Path, paths: list[str], output: str | None) -> list[BatchJob]:
    sources = [folder / each for each in paths]
    return plan_jobs(sources, None if output is None else folder / output, ".wav", "mei")


@pytest.mark.parametrize(
    ("files", "paths", "output", "targets"),
    [
        # The result of a file lies beside it, whatever it is called.
        (["hello.xyz"], ["hello.xyz"], None, {"hello.xyz": "hello-mei.wav"}),
        # Those of a folder lie in a folder beside it, in the same order.
        (
            ["in/b.MP3", "in/a.wav", "in/deep/c.amr", "in/notes.txt", "x.wav"],
            ["in", "x.wav"],
            None,
            {
                "in/a.wav": "in-mei/a.wav",
                "in/b.MP3": "in-mei/b.wav",
                "in/deep/c.amr": "in-mei/deep/c.wav",
                "x.wav": "x-mei.wav",
            },
        ),
        # The last path is the output if it is a folder or new.
        (["a.ogg", "out/"], ["a.ogg", "out"], None, {"a.ogg": "out/a.wav"}),
        (["a.ogg"], ["a.ogg", "new.wav"], None, {"a.ogg": "new.wav"}),
        # A named output is not a source.
        (["a.ogg"], ["a.ogg"], "x.wav", {"a.ogg": "x.wav"}),
        (["a.ogg", "out/"], ["a.ogg"], "out", {"a.ogg": "out/a.wav"}),
    ],
)
def test_each_recording_has_its_place_for_the_result(
    tmp_path: Path,
    files: list[str],
    paths: list[str],
    output: str | None,
    targets: dict[str, str],
) -> None:
    made(tmp_path, *files)

    jobs = planned(tmp_path, paths, output)

    assert jobs == [BatchJob(tmp_path / a, tmp_path / b) for a, b in targets.items()]


@pytest.mark.parametrize(
    ("files", "paths", "output", "complaint"),
    [
        (["a.wav"], ["gone.wav", "a.wav"], None, r"gone\.wav does not exist"),
        (["in/"], ["in"], None, "there is no recording in"),
        (["a.wav", "b.wav"], ["a.wav", "b.wav", "new.wav"], None, r"become .*new\.wav; name a fol"),
        (["in/a.wav"], ["in", "new.wav"], None, r"cannot become .*new\.wav; name a folder"),
        (["in/a.wav", "in/a.mp3"], ["in"], None, "would both become"),
        (["a.wav"], ["a.wav"], ".", "overwritten by its own result"),
    ],
)
def test_recordings_without_a_place_for_the_result_are_refused(
    tmp_path: Path, files: list[str], paths: list[str], output: str | None, complaint: str
) -> None:
    made(tmp_path, *files)

    with pytest.raises(UsageError, match=complaint):
        planned(tmp_path, paths, output)
