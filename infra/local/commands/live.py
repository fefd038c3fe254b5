"""The command `live`: sends speech to `live` as it is spoken, and prints when each answer came."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from rich.console import Console
from websockets.exceptions import ConnectionClosed

from infra.local.cloud.starting import local_cloud
from infra.local.commands.batch import UsageError
from infra.local.commands.demo import Steps
from infra.local.commands.live_visitor import LiveVisitor
from infra.local.commands.visitor import (
    RefusedError,
    Visitor,
    Wish,
    content_type_of,
    open_client,
    read_recording,
)
from speech.decoding.decoder import Decoder
from speech.decoding.recordings.recording import DecodeLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from infra.local.cloud.cloud import LocalCloud
    from infra.local.configuration.options import CloudOptions

_PIECE_BYTES: Final = 4096
"""What is sent at a time: 43 ms of the microphone. Some devices give a few samples at a time, and
the service limits the number of messages."""

_RECORDER_SECONDS: Final = 10.0
"""How long the program that records may give nothing, and may take to end."""

_FFMPEG_INPUTS: Final = {
    "linux": ("-f", "alsa", "-i", "default"),
    "darwin": ("-f", "avfoundation", "-i", ":default"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where the speech comes from.

    Attributes:
        path: a file, which is sent at the pace of speech; None for the microphone.
        seconds: how long to record from the microphone.
    """

    path: Path | None
    seconds: float


async def run_live(
    options: CloudOptions, wish: Wish, source: Source, *, embedded: bool | None, output: Path
) -> None:
    """Send speech as it is spoken, and leave the result at `output`.

    Raises:
        UsageError: there is no microphone to record from.
        RefusedError: the speech was not converted.
    """
    if source.path is None:
        _recorder(source.seconds)  # complains before anything is started
    steps = Steps(Console())
    steps.show("starting the local cloud")
    async with local_cloud(options, embedded=embedded, note=steps.show) as cloud:
        await _speak(cloud, steps, wish, source, output)
    steps.show("everything is stopped; the converted recording:")
    steps.say(str(output))


async def _speak(cloud: LocalCloud, steps: Steps, wish: Wish, source: Source, output: Path) -> None:
    content_type = "audio/wav" if source.path is None else content_type_of(source.path)
    async with open_client() as client:
        visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        created = await visitor.create(wish, content_type)
    steps.show(f"POST /api/v1/voices: voice {created['voice_id']} and a ticket")
    async with LiveVisitor(created["live"]["url"], created["live"]["ticket"]) as live:
        # If the service closes the connection, what it said comes after this.
        with suppress(ConnectionClosed):
            if source.path is None:
                await live.start(content_type)
                steps.show(f"speak now, for {source.seconds:g} s")
                await send_recorded(live, _recorder(source.seconds))
            else:
                recording = await asyncio.to_thread(read_recording, source.path, created)
                await _speak_file(live, steps, source.path, recording, content_type)
        ended = time.perf_counter()
        steps.show("the speech has ended")
        last = await live.end()
    _show_times(steps, live, ended)
    if last is None or last["type"] == "retry":
        raise RefusedError("not_live", f"the recording has to be uploaded: {last or live.close}")
    if last["type"] == "failed":
        raise RefusedError(last["code"], last["message"])
    await asyncio.to_thread(_write, output, live.sound)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _show_times(steps: Steps, live: LiveVisitor, ended: float) -> None:
    what = {
        "converted": "the result begins to come",
        "sound": "the result can be played",
        "done": "the document is done",
        "failed": "the document is failed",
    }
    for name, at in live.came_at.items():
        if name in what:
            steps.show(f"{(at - ended) * 1000:.0f} ms after the end: {what[name]}")


async def _speak_file(
    live: LiveVisitor, steps: Steps, path: Path, recording: bytes, content_type: str
) -> None:
    seconds = await _length(recording)
    steps.show(f"speaking: {path.name}, {len(recording)} bytes in {seconds:.1f} s")
    await live.speak(recording, content_type, seconds=seconds)


async def _length(recording: bytes) -> float:
    """Read a recording's length."""
    decoder = Decoder(max_processes=1)
    try:
        await decoder.start()
        return (await decoder.decode(recording, limits=DecodeLimits())).seconds
    finally:
        await decoder.aclose()


async def send_recorded(live: LiveVisitor, command: Sequence[str]) -> None:
    """Send what a program records to its standard output, up to its end, and `end`.

    Raises:
        UsageError: the program failed.
        websockets.exceptions.ConnectionClosed: the service closed the connection.
    """
    async with _recording(command) as output:
        while piece := await _next_piece(output):
            await live.send(piece)
    await live.finish()


async def _next_piece(output: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(_RECORDER_SECONDS):
            return await output.readexactly(_PIECE_BYTES)
    except TimeoutError:
        raise UsageError(f"the microphone gave no sound for {_RECORDER_SECONDS:g} s") from None
    except asyncio.IncompleteReadError as end:
        return end.partial


@asynccontextmanager
async def _recording(command: Sequence[str]) -> AsyncIterator[asyncio.StreamReader]:
    # ffmpeg would take what is typed meanwhile as commands.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield cast("asyncio.StreamReader", process.stdout)
        async with asyncio.timeout(_RECORDER_SECONDS):
            await process.wait()
    except TimeoutError:
        raise UsageError(f"{command[0]} does not end") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        raise UsageError(f"{command[0]} could not record from the microphone")


def _recorder(seconds: float) -> list[str]:
    """Return the command that records a WAV of so many seconds to its standard output.

    Raises:
        UsageError: no program for that is installed.
    """
    length = f"{seconds:g}"
    if sys.platform == "linux" and shutil.which("arecord"):
        whole = f"{max(1, round(seconds))}"
        return ["arecord", "-q", "-t", "wav", "-f", "S16_LE", "-r", "48000", "-d", whole]
    if shutil.which("ffmpeg") and sys.platform in _FFMPEG_INPUTS:
        quiet = ("ffmpeg", "-loglevel", "error")
        return [*quiet, *_FFMPEG_INPUTS[sys.platform], "-t", length, "-ac", "1", "-f", "wav", "-"]
    raise UsageError(
        "--microphone needs arecord (Linux) or ffmpeg (Linux, macOS): install one, or name a file"
    )
