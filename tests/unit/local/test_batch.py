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


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return paths


def planned(*paths: Path, output: Path | None = None) -> list[BatchJob]:
    return plan_jobs(paths, output, ".wav", "mei")


def test_a_files_result_lies_beside_it(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "hello.webm")

    assert planned(source) == [BatchJob(source, tmp_path / "hello-mei.wav")]


def test_a_file_that_is_named_is_tried_whatever_it_is_called(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "hello.xyz")

    assert planned(source) == [BatchJob(source, tmp_path / "hello-mei.wav")]


def test_a_folders_results_lie_in_a_folder_beside_it_in_the_same_order(tmp_path: Path) -> None:
    made(tmp_path, "in/b.MP3", "in/a.wav", "in/deep/c.amr", "in/notes.txt", "in/cover.jpg")

    assert planned(tmp_path / "in") == [
        BatchJob(tmp_path / "in/a.wav", tmp_path / "in-mei/a.wav"),
        BatchJob(tmp_path / "in/b.MP3", tmp_path / "in-mei/b.wav"),
        BatchJob(tmp_path / "in/deep/c.amr", tmp_path / "in-mei/deep/c.wav"),
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

    assert planned(a, b, out) == [BatchJob(a, out / "a.wav"), BatchJob(b, out / "b.wav")]


def test_a_single_recordings_output_may_be_a_file(tmp_path: Path) -> None:
    (source,) = made(tmp_path, "a.ogg")

    assert planned(source, tmp_path / "new.wav") == [BatchJob(source, tmp_path / "new.wav")]
    assert planned(source, output=tmp_path / "x.wav") == [BatchJob(source, tmp_path / "x.wav")]


def test_a_named_output_is_not_a_source(tmp_path: Path) -> None:
    a, b = made(tmp_path, "a.ogg", "b.ogg")
    out = tmp_path / "out"
    out.mkdir()

    assert [job.target for job in planned(a, b, output=out)] == [out / "a.wav", out / "b.wav"]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.wav does not exist"):
        planned(tmp_path / "gone.wav")
    (source,) = made(tmp_path, "a.wav")
    with pytest.raises(UsageError, match=r"gone\.wav does not exist"):
        planned(tmp_path / "gone.wav", source)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
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


class Service:
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
    service = Service()
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
    assert f"2.80 (damaged: {told})" in capsys.readouterr().out
