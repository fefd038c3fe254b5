"""Runs decoding processes on systems without Linux's protection: with a time limit only."""

from __future__ import annotations

import asyncio
import contextlib
import time
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Final

from speech.decoding.recordings.wire import Exit
from speech.decoding.sandbox.process_answer import (
    OUT_OF_TIME,
    DecoderUnavailableError,
    ProcessAnswer,
)
from speech.decoding.sandbox.process_environment import (
    GRACE_SECONDS,
    bare_environment,
    python_command,
)

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    from speech.decoding.recordings.recording import DecodeLimits
    from speech.decoding.recordings.wire import DecodingJob

_PIECE_BYTES: Final = 1 << 18
_EXCEEDED: Final = 70  # the status of a process that wrote more than it may


class SpawnedProcesses:
    """Runs decoding processes, each a new interpreter that reads stdin and writes stdout.

    Args:
        on_process: is told the number of every decoding process before it gets its recording.
    """

    def __init__(self, on_process: Callable[[int], None] | None = None) -> None:
        self._on_process = on_process
        self._running: set[Process] = set()
        self._closed = False

    @property
    def is_ready(self) -> bool:
        """Whether processes can be started: until it is closed."""
        return not self._closed

    async def start(self) -> None:
        """Do nothing: each recording starts its own process."""

    async def aclose(self) -> None:
        """Kill the processes that still run."""
        self._closed = True
        for process in self._running:
            _kill(process)

    async def run(
        self, data: bytes | memoryview, job: DecodingJob, limits: DecodeLimits
    ) -> ProcessAnswer:
        """Run one decoding process.

        Processor time is not known here: the time by the clock stands for it.

        Raises:
            DecoderUnavailableError: the process does not start.
        """
        process = await self._start()
        began = time.monotonic()
        ending = _EXCEEDED
        try:
            async with asyncio.timeout(limits.wall_allowance + GRACE_SECONDS):
                _, answer = await asyncio.gather(
                    _send(process, job, data), _receive(process, job.answer_bytes)
                )
                status = await process.wait()
        except TimeoutError:
            # As where Linux's means are there: perhaps the machine was busy; it is tried once more.
            answer, ending = None, OUT_OF_TIME
        finally:
            _kill(process)
            await process.wait()
            self._running.discard(process)
        elapsed = time.monotonic() - began
        if answer is None:
            return ProcessAnswer(memoryview(b""), None, Exit(ending, elapsed))
        return ProcessAnswer.read(memoryview(answer), Exit(status, elapsed))

    async def open(self, job: DecodingJob) -> None:
        """Return None: without Linux's protection, only whole recordings are decoded."""
        del job

    async def _start(self) -> Process:
        if self._closed:
            raise DecoderUnavailableError("the decoder is closed")
        try:
            process = await asyncio.create_subprocess_exec(
                *python_command("speech.decoding.sandbox.spawned_process"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=bare_environment(),
            )
        except OSError as error:
            raise DecoderUnavailableError("no process can be started for decoding") from error
        self._running.add(process)
        if self._on_process is not None:
            self._on_process(process.pid)
        return process


async def _send(process: Process, job: DecodingJob, data: bytes | memoryview) -> None:
    if process.stdin is None:
        raise RuntimeError("the decoding process was started without stdin")
    # A process that ends before it has read everything says why in other ways.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(job.pack())
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _receive(process: Process, most: int) -> bytes | None:
    """Read what a process writes, or kill it and return None if it writes more than it may."""
    if process.stdout is None:
        raise RuntimeError("the decoding process was started without stdout")
    received = bytearray()
    while piece := await process.stdout.read(_PIECE_BYTES):
        received += piece
        if len(received) > most:
            _kill(process)
            return None
    return bytes(received)


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
