from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import gunicorn.config
import httpx
import pytest
import uvicorn
from rich.console import Console

from infra.local.cloud.memory import MemoryVoices
from infra.local.commands import visitor
from infra.local.commands.batch import (
    BatchJob,
    BatchReport,
    UsageError,
    _table,
    convert_all,
    plan_jobs,
)
from infra.local.commands.visitor import (
    IDLE_SECONDS,
    RecordingRequest,
    RequestRefusedError,
    Visitor,
    open_client,
)
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import Options, Result, Status, create, new_voice_id
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
            ["in/b.MP3", "in/a.wav", "in/deep/c.amr", "in/notes.txt", "in/cover.jpg"],
            ["in"],
            None,
            {
                "in/a.wav": "in-mei/a.wav",
                "in/b.MP3": "in-mei/b.wav",
                "in/deep/c.amr": "in-mei/deep/c.wav",
            },
        ),
        (
            ["a.wav", "in/b.wav"],
            ["in", "a.wav"],
            None,
            {"in/b.wav": "in-mei/b.wav", "a.wav": "a-mei.wav"},
        ),
        # The last path is the output if it is a folder or new.
        (
            ["a.ogg", "b.ogg", "out/"],
            ["a.ogg", "b.ogg", "out"],
            None,
            {"a.ogg": "out/a.wav", "b.ogg": "out/b.wav"},
        ),
        (
            ["a.ogg", "b.ogg"],
            ["a.ogg", "b.ogg", "out"],
            None,
            {"a.ogg": "out/a.wav", "b.ogg": "out/b.wav"},
        ),
        (["a.ogg"], ["a.ogg", "new.wav"], None, {"a.ogg": "new.wav"}),
        (["a.ogg"], ["a.ogg"], "x.wav", {"a.ogg": "x.wav"}),
        # A named output is not a source.
        (
            ["a.ogg", "b.ogg", "out/"],
            ["a.ogg", "b.ogg"],
            "out",
            {"a.ogg": "out/a.wav", "b.ogg": "out/b.wav"},
        ),
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
        ([], ["gone.wav"], None, r"gone\.wav does not exist"),
        (["a.wav"], ["gone.wav", "a.wav"], None, r"gone\.wav does not exist"),
        (["in/"], ["in"], None, "there is no recording in"),
        (
            ["a.wav", "b.wav"],
            ["a.wav", "b.wav", "new.wav"],
            None,
            r"cannot become .*new\.wav; name a folder",
        ),
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


class FakeService:
    """An api and a Cloud Storage whose voices are done as soon as they are created."""

    def __init__(self) -> None:
        self.voices = VoicesWithABrokenListener()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            upload = {
                "method": "PUT",
                "url": "http://storage.test/upload",
                "headers": {},
                "max_bytes": 8_000_000,
            }
            voice_id = await self._create()
            return httpx.Response(201, json={"voice_id": voice_id, "upload": upload})
        return httpx.Response(200, content=b"the result")

    async def _create(self) -> str:
        voice = create(new_voice_id(), "mei", Options(), now=datetime.now(UTC))
        result = Result(
            bucket="results",
            object="a-result",
            url="http://storage.test/result",
            url_expires_at=datetime.now(UTC),
            content_type="audio/wav",
            bytes=10,
            seconds=1.0,
            sha256="",
        )
        await self.voices.create(replace(voice, status=Status.DONE, result=result))
        return voice.voice_id


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


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_broken_listener_fails_only_its_own_recording(tmp_path: Path) -> None:
    service = FakeService()
    jobs = [BatchJob(SAMPLE, tmp_path / name) for name in ("a.wav", "b.wav", "c.wav")]
    reports = [BatchReport(job) for job in jobs]
    ended: list[BatchReport] = []
    async with httpx.AsyncClient(transport=httpx.MockTransport(service.answer)) as client:
        visitor = Visitor(client, "http://api.test", service.voices)

        await convert_all(
            visitor,
            reports,
            RecordingRequest(),
            overwrite=False,
            at_once=1,
            started=lambda _report: None,
            ended=ended.append,
        )

    assert ended == reports
    assert [report.error.code if report.error else None for report in reports] == [
        "unavailable",
        None,
        None,
    ]
    assert files_in(tmp_path) == ["b.wav", "c.wav"]


def test_a_visitor_uses_no_connection_that_a_server_may_be_closing() -> None:
    # Uvicorn serves the local bucket and the embedded cloud, Gunicorn the functions.
    kept = (uvicorn.Config(None).timeout_keep_alive, gunicorn.config.Keepalive.default)  # type: ignore[arg-type] # no application is served
    assert min(kept) / 2 >= IDLE_SECONDS


async def test_the_clients_of_the_commands_forget_idle_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitor, "IDLE_SECONDS", 0.1)
    connections: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        async with open_client() as client:
            for _ in range(2):
                await client.get(url)
            assert len(connections) == 1
            await asyncio.sleep(0.2)
            await client.get(url)
        await asyncio.gather(*(each for each in connections if each is not None))
    assert len(connections) == 2


def test_a_file_is_shown_as_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    job = BatchJob(tmp_path / "song [live].wav", tmp_path / "song [live]-mei.wav")
    refused = BatchReport(job, error=RequestRefusedError("corrupt", "what [/b] means"))
    Console().print(_table([refused, BatchReport(job, is_there=True)]))
    said = capsys.readouterr().out
    assert said.count("song [live].wav") == 2
    assert "song [live]-mei.wav" in said
    assert "what [/b] means" in said


@pytest.mark.parametrize(("missing", "told"), [(2.4, "2.40 s missing"), (0.0, "cut off")])
def test_a_damaged_recording_is_told_in_the_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: float,
    told: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = a_done()
    assert done.input is not None
    held = replace(done.input, seconds=2.8, damaged=True, missing_seconds=missing)
    job = BatchJob(tmp_path / "a.webm", tmp_path / "a.wav")
    Console().print(_table([BatchReport(job, voice=replace(done, input=held))]))
    assert f"2.50 (damaged: {told})" in capsys.readouterr().out
