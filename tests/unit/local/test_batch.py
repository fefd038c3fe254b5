from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.cloud.memory import MemoryVoices
from infra.local.commands.batch import (
    BatchJob,
    BatchReport,
    UsageError,
    convert_all,
    plan_jobs,
)
from infra.local.commands.visitor import RecordingRequest, Visitor
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import new_voice_id
from tests.integration.served import SAMPLE
from tests.support.voices import a_done

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shared.voices.voice import Voice


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


class VoicesWithABrokenListener(MemoryVoices):
    """Voices whose first listener loses its connection."""

    def __init__(self) -> None:
        super().__init__()
        self._has_broken = False

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        if not self._has_broken:
            self._has_broken = True
            raise StoreUnavailableError("the listener lost its connection")
        async with super().watch(voice_id) as states:
            yield states


class FakeService:
    """An api and a Cloud Storage whose voices are done as soon as they are created."""

    def __init__(self) -> None:
        self.voices = VoicesWithABrokenListener()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method != "POST":
            return httpx.Response(200, content=b"the result")
        voice = replace(a_done(), voice_id=new_voice_id())
        await self.voices.create(voice)
        url = "http://storage.test/upload"
        upload = {"method": "PUT", "url": url, "headers": {}, "max_bytes": 8_000_000}
        return httpx.Response(201, json={"voice_id": voice.voice_id, "upload": upload})


async def test_a_broken_listener_fails_only_its_own_recording(tmp_path: Path) -> None:
    service = FakeService()
    jobs = [BatchJob(SAMPLE, tmp_path / name) for name in ("a.wav", "b.wav", "c.wav")]
    reports = [BatchReport(job) for job in jobs]
    ended: list[BatchReport] = []
    async with httpx.AsyncClient(transport=httpx.MockTransport(service.answer)) as client:
        await convert_all(
            Visitor(client, "http://api.test", service.voices),
            reports,
            RecordingRequest(),
            overwrite=False,
            at_once=1,
            started=lambda _report: None,
            ended=ended.append,
        )

    assert ended == reports
    codes = [report.error.code if report.error else None for report in reports]
    assert codes == ["unavailable", None, None]
    assert [job.target.exists() for job in jobs] == [False, True, True]
