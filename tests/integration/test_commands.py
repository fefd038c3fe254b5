"""The commands, run as a user runs them."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import av
import httpx
import numpy as np
import pytest
from av.audio.stream import AudioStream

from infra.local.cloud.local_cloud import find_running_cloud, published_endpoints
from infra.local.cloud.start import local_cloud
from infra.local.commands import batch, live
from infra.local.commands.batch import BatchJob, run_batch, run_text
from infra.local.commands.live import SpeechSource, run_live
from infra.local.commands.visitor import RecordingRequest, TextRequest
from infra.local.configuration.names import Ports
from infra.local.configuration.options import CloudOptions
from tests.integration.served import (
    ROOT,
    SAMPLE,
    children_of,
    command,
    environment,
    require_emulators,
    run,
    served_process,
    still_running,
)
from tests.support.without_linux import WITHOUT_LINUX, run_without_linux

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def plays(path: Path) -> bool:
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    return bool(np.abs(np.concatenate(frames, axis=1)).max() > 1000)


@pytest.mark.parametrize(
    "kind",
    [
        ["--embedded"],
        pytest.param(["--scale-to-zero", "60"], marks=pytest.mark.emulators),
    ],
    ids=" ".join,
)
def test_the_demo_ends_with_the_path_of_a_file_that_plays(kind: list[str], tmp_path: Path) -> None:
    if kind != ["--embedded"]:
        require_emulators()
    output = tmp_path / "demo.wav"
    # An empty variable names no running emulator.
    empty = {"FIRESTORE_EMULATOR_HOST": "", "PUBSUB_EMULATOR_HOST": ""}

    finished = run("demo", *kind, "--output", output, variables=empty)

    said = finished.stdout
    assert finished.returncode == 0, said + finished.stderr
    assert said.splitlines()[-1] == str(output)
    steps = ["starting", "POST", "signed address", "converting", "done", "downloaded"]
    assert [said.index(step) for step in steps] == sorted(said.index(step) for step in steps)
    assert plays(output)


@pytest.mark.emulators
def test_emulators_that_run_already_serve_one_demo_after_another(
    firestore_emulator: str, pubsub_emulator: str, tmp_path: Path
) -> None:
    running = {
        "FIRESTORE_EMULATOR_HOST": firestore_emulator,
        "PUBSUB_EMULATOR_HOST": pubsub_emulator,
    }
    for name in ("first.wav", "second.wav"):
        places = ("--output", tmp_path / name, "--trace", tmp_path / "traces.jsonl")
        finished = run("demo", "--emulators", *places, variables=running)

        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert (tmp_path / name).is_file()
        # The trace of a voice has steps of several processes.
        for step in ("on_upload: upload received", "convert: network"):
            assert step in finished.stdout


def write_recording(path: Path, codec: str, rate: int, layout: str) -> Path:
    with av.open(str(SAMPLE)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, AudioStream)
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        for frame in [*source.decode(audio=0), None]:
            for resampled in resampler.resample(frame):
                resampled.pts = None
                target.mux(stream.encode(resampled))
        target.mux(stream.encode(None))
    return path


def test_a_folder_is_converted_whatever_is_in_it_and_the_exit_code_tells(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    write_recording(folder / "a.wav", "pcm_f32le", 96_000, "stereo")
    write_recording(folder / "b.mp3", "libmp3lame", 44_100, "stereo")
    shutil.copy(SAMPLE, folder / "there.webm")
    (folder / "bad.wav").write_text("this is no recording")
    results = tmp_path / "results"
    results.mkdir()
    (results / "there.wav").write_bytes(b"precious")

    finished = run("convert", "--embedded", "recordings", "results", cwd=tmp_path)

    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert finished.stdout.count("unsupported_format") == 1
    assert "already there" in finished.stdout
    assert "--overwrite" in finished.stdout.replace("\n", "")
    assert sorted(path.name for path in results.iterdir()) == ["a.wav", "b.wav", "there.wav"]
    assert (results / "there.wav").read_bytes() == b"precious"


async def test_a_local_cloud_that_runs_already_converts_what_its_limits_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StartedError(Exception):
        pass

    def start(*_: object, **__: object) -> None:
        raise StartedError

    options = CloudOptions(folder=tmp_path)
    async with local_cloud(options, embedded=True) as cloud:
        with published_endpoints(cloud, tmp_path):
            running = await asyncio.to_thread(find_running_cloud, tmp_path)
        assert running is not None
        assert "hina" in running.characters
        for module in (batch, live):
            monkeypatch.setattr(module, "local_cloud", start)
        speak = partial(run_text, options, overwrite=True, embedded=None, api=running.api)
        await speak(TextRequest("Hello.", "ned"), output=tmp_path / "hello.wav")
        job = BatchJob(SAMPLE, tmp_path / "sample.wav")
        (report,) = await run_batch(
            options,
            [job],
            RecordingRequest("hina"),
            overwrite=True,
            embedded=None,
            api=running.api,
        )
        source, spoken = SpeechSource(SAMPLE, 5.0), tmp_path / "live.wav"
        wish = RecordingRequest("hina")
        await run_live(options, wish, source, embedded=None, output=spoken, api=running.api)
        with pytest.raises(StartedError):
            await speak(TextRequest("word " * 300, "ned"), output=tmp_path / "long.wav")

    assert report.error is None
    assert (tmp_path / "hello.wav").stat().st_size > 10_000
    assert job.target.stat().st_size > 10_000
    assert spoken.stat().st_size > 10_000
    assert find_running_cloud(tmp_path) is None


@pytest.mark.emulators
def test_nothing_is_left_running_after_a_kill(tmp_path: Path) -> None:
    with served_process(tmp_path, "--emulators") as process:
        children = children_of(process)
        assert len(children) >= 7

        process.kill()
        process.wait()

        assert still_running(children) == []
        (tmp_path / "endpoints.json").unlink()  # nobody was there to remove it


def test_ctrl_c_during_a_conversion_stops_everything(tmp_path: Path) -> None:
    output = tmp_path / "demo.wav"
    process = subprocess.Popen(
        command("demo", "--embedded", "--output", output),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "the api listens" in line:
            break
    children = children_of(process)

    process.send_signal(signal.SIGINT)
    process.communicate()

    assert process.returncode == 130
    assert still_running(children) == []
    assert not output.exists()


def test_sigterm_ends_serve(tmp_path: Path) -> None:
    with served_process(tmp_path, "--embedded") as process:
        process.terminate()
        said, _ = process.communicate()

    assert process.returncode == 0
    assert "Traceback" not in said


@contextmanager
def serving_without_linux(
    folder: Path, variables: dict[str, str], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """Start what serves until Ctrl-C, and expect it to end well then."""
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_LINUX, *arguments],
        cwd=folder,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=60)
    finally:
        process.kill()
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said


def test_voices_are_imported_without_the_means_that_only_linux_has(tmp_path: Path) -> None:
    voice = tmp_path / "voice.pth"
    voice.write_bytes(b"no voice")

    checked = run_without_linux(tmp_path, "tools.importing", "check", ROOT / "characters" / "ned")
    imported = run_without_linux(tmp_path, "tools.importing", "import", voice, "--yes")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Traceback" not in imported.stderr, imported.stderr


def test_a_service_speaks_and_ends_without_the_means_that_only_linux_has(tmp_path: Path) -> None:
    with Ports() as ports:
        (port,) = ports.free(1)
    variables = {"HOST": "127.0.0.1", "PORT": str(port), "WORKERS": "1", "CONCURRENCY": "1"}
    variables["MAX_WORK_SECONDS"] = "0"
    with serving_without_linux(tmp_path, variables, "functions.compat") as process:
        url = f"http://127.0.0.1:{port}/version"
        for _ in range(600):
            if process.poll() is not None:
                break
            try:
                assert httpx.get(url, timeout=10).status_code == 200
                break
            except httpx.TransportError:
                time.sleep(0.1)


def test_several_processes_are_refused_with_a_sentence_without_these_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKERS", "2")
    monkeypatch.setenv("CONCURRENCY", "2")
    with Ports() as ports:
        monkeypatch.setenv("PORT", str(ports.free(1)[0]))

    finished = run_without_linux(tmp_path, "functions.compat")

    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Set WORKERS=1" in finished.stderr


def test_the_demo_works_without_the_means_that_only_linux_has(tmp_path: Path) -> None:
    output = tmp_path / "demo.wav"

    finished = run_without_linux(tmp_path, "infra.local", "demo", "--embedded", "--output", output)

    said = finished.stdout + finished.stderr
    assert finished.returncode == 0, said
    assert said.count("Recordings are decoded in ordinary processes with a time limit") == 1, said
    assert plays(output)
