"""Runs decoding processes: forked from a zygote with all of Linux's protection, or spawned.

A forked process has limits of the operating system and a filter of system calls (see zygote.py),
and shares nothing with the service: neither memory nor environment nor open files.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import time
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, BinaryIO, Final, Self, cast

from shared.speech.decoding.process_output import (
    OUT_OF_TIME,
    DecoderUnavailableError,
    ProcessAnswer,
    ProcessSockets,
    read_exit,
    receive,
    receive_message,
)
from shared.speech.decoding.wire import (
    GRACE_SECONDS,
    PROCESS_ID,
    READY,
    START,
    START_AND_TELL,
    ProcessExit,
    bare_environment,
    python_command,
)

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    from shared.speech.decoding.recording import DecodeLimits
    from shared.speech.decoding.wire import DecodingJob


_START_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0


class _Zygote:
    def __init__(self, process: Process, control: socket.socket) -> None:
        self.process = process
        self._control = control
        # Set where it did not say how a process ended: it counts as dead then.
        self.is_abandoned = False

    @classmethod
    async def start(cls) -> Self:
        control, theirs = socket.socketpair()
        control.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *python_command("shared.speech.decoding.zygote"),
                    stdin=theirs.fileno(),
                    stdout=DEVNULL,
                    env=bare_environment(),
                    start_new_session=True,
                )
        except OSError as error:
            control.close()
            raise DecoderUnavailableError("no process can be started for decoding") from error
        zygote = cls(process, control)
        answer = b""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_START_SECONDS):
                    answer = await asyncio.get_running_loop().sock_recv(control, len(READY))
        finally:
            if answer != READY:
                await zygote.aclose()
        if answer != READY:
            raise DecoderUnavailableError("the process that decodes recordings does not start")
        return zygote

    def is_running(self) -> bool:
        # It sends nothing after READY, so only its end is readable.
        if self.is_abandoned:
            return False
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fork(self, start: bytes, *ends: BinaryIO | socket.socket) -> None:
        """Start a process that alone has its sockets then; OSError if the zygote is gone."""
        socket.send_fds(self._control, [start], [end.fileno() for end in ends])
        for end in ends:
            if isinstance(end, socket.socket):
                end.close()

    async def aclose(self) -> None:
        self._control.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.process.wait()
        except TimeoutError:
            _kill(self.process)
            await self.process.wait()


class ForkedProcesses:
    def __init__(self, on_process: Callable[[int], None] | None = None) -> None:
        self._on_process = on_process
        self._start_byte = START if on_process is None else START_AND_TELL
        self._starting = asyncio.Lock()
        self._zygote: _Zygote | None = None
        self._closed = False

    @property
    def is_ready(self) -> bool:
        return self._zygote is not None and self._zygote.is_running()

    async def start(self) -> None:
        await self._running_zygote()

    async def aclose(self) -> None:
        self._closed = True
        async with self._starting:
            if self._zygote is not None:
                await self._zygote.aclose()
                self._zygote = None

    async def run(
        self, data: bytes | memoryview, job: DecodingJob, limits: DecodeLimits
    ) -> ProcessAnswer | None:
        """Run one decoding process; None if there was no zygote to fork it."""
        zygote, loop = await self._running_zygote(), asyncio.get_running_loop()
        with contextlib.ExitStack() as sockets:
            content, their_content = _socket_pair(sockets)
            status, their_status = _socket_pair(sockets)
            answer = sockets.enter_context(os.fdopen(os.memfd_create("recording"), "rb"))
            try:
                zygote.fork(self._start_byte, their_content, answer, their_status)
            except OSError:
                return None
            try:
                async with asyncio.timeout(limits.wall_allowance + GRACE_SECONDS):
                    await self._report_process(status)
                    # A process that ends before it has read everything says why in its answer or
                    # exit status.
                    with contextlib.suppress(ConnectionError):
                        await loop.sock_sendall(content, job.pack())
                        await loop.sock_sendall(content, data)
                    with contextlib.suppress(OSError):
                        content.shutdown(socket.SHUT_WR)
                    exit_ = read_exit(await receive_message(status))
            except TimeoutError:
                # A working zygote would have killed the process by now.
                zygote.is_abandoned = True
                raise DecoderUnavailableError("the decoding process does not answer") from None
            if exit_ is None:
                zygote.is_abandoned = True
                return ProcessAnswer(memoryview(b""), None, None)
            # The process has ended, so its answer does not change any more.
            size = os.fstat(answer.fileno()).st_size
            written = memoryview(b"")
            if 0 < size <= job.answer_bytes:
                written = memoryview(mmap.mmap(answer.fileno(), size, prot=mmap.PROT_READ))
            return ProcessAnswer.read(written, exit_)

    async def open(self, job: DecodingJob) -> ProcessSockets | None:
        """Start a process for a recording that is coming; None if nothing could fork it."""
        zygote = await self._running_zygote()
        with contextlib.ExitStack() as sockets:
            content, their_content = _socket_pair(sockets)
            answer, their_answer = _socket_pair(sockets)
            status, their_status = _socket_pair(sockets)
            try:
                zygote.fork(self._start_byte, their_content, their_answer, their_status)
            except OSError:
                return None
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await self._report_process(status)
                    with contextlib.suppress(ConnectionError):
                        await asyncio.get_running_loop().sock_sendall(content, job.pack())
            except TimeoutError as error:
                raise DecoderUnavailableError("a decoding process does not start") from error
            sockets.pop_all()
            return ProcessSockets(content, answer, status)

    async def _report_process(self, status: socket.socket) -> None:
        if self._on_process is not None:
            started = await receive(status, PROCESS_ID.size)
            (process,) = PROCESS_ID.unpack(started) if started else (0,)
            if process > 0:
                self._on_process(process)

    async def _running_zygote(self) -> _Zygote:
        async with self._starting:
            if self._closed:
                raise DecoderUnavailableError("the decoder is closed")
            if self._zygote is not None and not self._zygote.is_running():
                await self._zygote.aclose()
                self._zygote = None
            if self._zygote is None:
                self._zygote = await _Zygote.start()
            return self._zygote


def _socket_pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Open two connected sockets, which `stack` closes; waiting for the first blocks nobody."""
    ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
    ours.setblocking(False)
    return ours, theirs


_PIECE_BYTES: Final = 1 << 18
_EXCEEDED: Final = 70  # the status of a process that wrote more than it may


class SpawnedProcesses:
    """Decoding processes that are new interpreters, read stdin and write stdout."""

    def __init__(self, on_process: Callable[[int], None] | None = None) -> None:
        self._on_process = on_process
        self._running: set[Process] = set()
        self._closed = False

    @property
    def is_ready(self) -> bool:
        return not self._closed

    async def start(self) -> None:
        """Do nothing: each recording starts its own process."""

    async def aclose(self) -> None:
        self._closed = True
        for process in self._running:
            _kill(process)

    async def run(
        self, data: bytes | memoryview, job: DecodingJob, limits: DecodeLimits
    ) -> ProcessAnswer:
        """Run one decoding process; the time by the clock stands for its processor time."""
        process = await self._start()
        began = time.monotonic()
        answer = bytearray()

        async def send() -> None:
            stdin = cast("asyncio.StreamWriter", process.stdin)
            # A process that ends before it has read everything says why in other ways.
            with contextlib.suppress(ConnectionError):
                stdin.write(job.pack())
                stdin.write(data)
                await stdin.drain()
            stdin.close()

        async def receive_answer() -> None:
            stdout = cast("asyncio.StreamReader", process.stdout)
            while len(answer) <= job.answer_bytes and (piece := await stdout.read(_PIECE_BYTES)):
                answer.extend(piece)
            if len(answer) > job.answer_bytes:
                _kill(process)

        try:
            async with asyncio.timeout(limits.wall_allowance + GRACE_SECONDS):
                await asyncio.gather(send(), receive_answer())
                status = await process.wait()
            if len(answer) > job.answer_bytes:
                answer, status = bytearray(), _EXCEEDED
        except TimeoutError:
            # As where Linux's means are there: perhaps the machine was busy; it is tried once more.
            answer, status = bytearray(), OUT_OF_TIME
        finally:
            _kill(process)
            await process.wait()
            self._running.discard(process)
        exit_ = ProcessExit(status, time.monotonic() - began)
        return ProcessAnswer.read(memoryview(answer), exit_)

    async def open(self, job: DecodingJob) -> None:
        """Return None: without Linux's protection, only whole recordings are decoded."""
        del job

    async def _start(self) -> Process:
        if self._closed:
            raise DecoderUnavailableError("the decoder is closed")
        try:
            process = await asyncio.create_subprocess_exec(
                *python_command("shared.speech.decoding.decode_process"),
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


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
