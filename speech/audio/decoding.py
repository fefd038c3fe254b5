"""Decodes recordings in processes that can be killed: the side of the service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import mmap
import os
import socket
import sys
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from shared.media import SNIFF_BYTES, Container, sniff
from shared.voice import ErrorCode, VoiceError
from speech.audio.outcome import DecoderUnavailableError, Outcome
from speech.audio.wire import (
    MAX_SAMPLE_RATE,
    PROCESS_ID,
    READY,
    START,
    START_AND_TELL,
    Exit,
    Job,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from speech.audio.recording import DecodeLimits, Recording

_START_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0

# The process ends itself at its time limit; this much later the service stops waiting for it.
_GRACE_SECONDS: Final = 1.0

_TRIES: Final = 2

# Some seconds of speech are looked through in less time than another thread takes to begin.
_CONCLUDED_AT_ONCE_BYTES: Final = 4 << 20

# Stereo at the highest rate in the usual precision: more than that is mixed from fewer channels.
_ANSWER_BYTES_PER_SECOND: Final = MAX_SAMPLE_RATE * 2 * 4

_ZYGOTE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from speech.audio.zygote import main; main()"
)


class _Zygote:
    """The running zygote, seen from the service."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._abandoned = False

    @classmethod
    async def start(cls) -> Self:
        """Start a zygote and wait until it has imported everything and is ready.

        Raises:
            DecoderUnavailableError: it does not start.
        """
        control, theirs = socket.socketpair()
        control.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-c", _ZYGOTE, json.dumps(sys.path)),
                    stdin=theirs.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    env=_environment(),
                    start_new_session=True,
                )
        except OSError as error:
            control.close()
            raise DecoderUnavailableError("no process can be started for decoding") from error
        zygote = cls(process, control)
        try:
            await zygote._await_ready()
        except BaseException:
            await zygote.aclose()
            raise
        return zygote

    async def _await_ready(self) -> None:
        answer = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                loop = asyncio.get_running_loop()
                answer = await loop.sock_recv(self._control, len(READY))
        if answer != READY:
            raise DecoderUnavailableError("the process that decodes recordings does not start")

    def is_running(self) -> bool:
        """Whether the zygote lives; it says nothing after it was ready, so an end is its end."""
        if self._abandoned:
            return False
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def abandon(self) -> None:
        """Take the zygote for dead: a process ended and it did not say how."""
        self._abandoned = True

    def fork(
        self, start: bytes, data: socket.socket, answer: BinaryIO, status: socket.socket
    ) -> None:
        """Start a decoding process on the two sockets and the file, with or without being told.

        Raises:
            OSError: the zygote is gone.
        """
        descriptors = [data.fileno(), answer.fileno(), status.fileno()]
        socket.send_fds(self._control, [start], descriptors)

    async def aclose(self) -> None:
        """End the zygote and with it every decoding process."""
        self._control.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


class Decoder:
    """Decodes recordings, several at a time, each in a limited process of its own.

    The processes are forked from a zygote that is started once and again whenever it is found
    dead. Use as an asynchronous context manager, or call `start` and `aclose`.
    """

    def __init__(
        self, *, max_processes: int = 4, on_process: Callable[[int], None] | None = None
    ) -> None:
        """Make a decoder that starts nothing yet.

        Args:
            max_processes: how many recordings are decoded at a time; the others wait.
            on_process: is told the number of every decoding process before it gets its recording.
        """
        self._on_process = on_process
        self._slots = asyncio.Semaphore(max_processes)
        self._starting = asyncio.Lock()
        self._zygote: _Zygote | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the zygote, so that the first recording need not wait for it.

        Raises:
            DecoderUnavailableError: it does not start.
        """
        await self._running_zygote()

    async def aclose(self) -> None:
        """Stop everything; recordings that are being decoded end in an error."""
        self._closed = True
        async with self._starting:
            if self._zygote is not None:
                await self._zygote.aclose()
                self._zygote = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def is_ready(self) -> bool:
        """Whether the zygote runs."""
        return self._zygote is not None and self._zygote.is_running()

    async def decode(self, data: bytes | memoryview, *, limits: DecodeLimits) -> Recording:
        """Decode a recording, given as it was uploaded.

        A recording that is cut off or partly broken is accepted if enough of it can be decoded;
        `Recording.damaged` then tells.

        Raises:
            VoiceError: the recording is the reason: `too_large`, `unsupported_format`, `no_audio`,
                `corrupt`, `too_long`, `too_short`, `silent` or `too_complex`.
            DecoderUnavailableError: the machine is the reason; nothing is known of the recording.
        """
        container = _require_supported(data, limits)
        async with self._slots:
            for _ in range(_TRIES):
                outcome = await self._run(data, container, limits)
                if outcome is None or outcome.was_killed(limits):
                    continue
                if len(outcome.body) <= _CONCLUDED_AT_ONCE_BYTES:
                    return outcome.conclude(container, limits)
                return await asyncio.to_thread(outcome.conclude, container, limits)
        raise DecoderUnavailableError("the decoding process was killed")

    async def _run(
        self, data: bytes | memoryview, container: Container, limits: DecodeLimits
    ) -> Outcome | None:
        """Run one decoding process; None if there was no zygote to fork it."""
        job = Job(
            container=container,
            max_seconds=limits.longest,
            cpu_seconds=limits.cpu_allowance,
            memory_bytes=limits.memory_bytes,
            wall_seconds=limits.wall_allowance,
            answer_bytes=_max_answer(limits),
        )
        zygote = await self._running_zygote()
        with contextlib.ExitStack() as sockets:
            content, their_content = (sockets.enter_context(end) for end in socket.socketpair())
            status, their_status = (sockets.enter_context(end) for end in socket.socketpair())
            answer = sockets.enter_context(_memory_file())
            content.setblocking(False)
            status.setblocking(False)
            try:
                start = START if self._on_process is None else START_AND_TELL
                zygote.fork(start, their_content, answer, their_status)
            except OSError:
                return None
            their_content.close()
            their_status.close()
            try:
                async with asyncio.timeout(limits.wall_allowance + _GRACE_SECONDS):
                    if self._on_process is not None:
                        self._tell_process(await _receive(status, PROCESS_ID.size))
                    await _send(content, job, data)
                    ending = await _receive(status, Exit.SIZE)
            except TimeoutError:
                # In time the process was killed, or else the zygote does not work any more.
                zygote.abandon()
                raise DecoderUnavailableError("the decoding process does not answer") from None
            exit_ = Exit.unpack(ending)
            if exit_ is None:
                zygote.abandon()
                return Outcome(memoryview(b""), None, None)
            # The process is gone: what it has left can be believed to stay as it is.
            body = _left_in(answer, job.answer_bytes)
        return Outcome(body[: -Verdict.SIZE], Verdict.unpack(bytes(body[-Verdict.SIZE :])), exit_)

    def _tell_process(self, started: bytes) -> None:
        (process,) = PROCESS_ID.unpack(started) if started else (0,)
        if process > 0 and self._on_process is not None:
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


def _environment() -> dict[str, str]:
    """Nothing of the service's environment but where the system's libraries lie."""
    environment = {}
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def _require_supported(data: bytes | memoryview, limits: DecodeLimits) -> Container:
    if len(data) > limits.max_bytes:
        raise VoiceError(
            ErrorCode.TOO_LARGE,
            f"The recording has {len(data)} bytes; at most {limits.max_bytes} are accepted.",
        )
    if len(data) == 0:
        raise VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it has no bytes.")
    container = sniff(bytes(data[:SNIFF_BYTES]))
    if container is None:
        raise VoiceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            "This is not a recording in a supported format; "
            "send WebM, MP4, Ogg, WAV, MP3, FLAC or AAC.",
        )
    return container


async def _send(content: socket.socket, job: Job, data: bytes | memoryview) -> None:
    loop = asyncio.get_running_loop()
    # A process that ends before it has read everything tells why in other ways.
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(content, job.pack())
        await loop.sock_sendall(content, data)
    with contextlib.suppress(OSError):
        content.shutdown(socket.SHUT_WR)


async def _receive(source: socket.socket, size: int) -> bytes:
    """Read `size` bytes, or what comes before the end."""
    loop = asyncio.get_running_loop()
    received = b""
    with contextlib.suppress(ConnectionError):
        while len(received) < size:
            piece = await loop.sock_recv(source, size - len(received))
            if not piece:
                break
            received += piece
    return received


def _memory_file() -> BinaryIO:
    """A file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("recording"), "rb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _left_in(answer: BinaryIO, max_bytes: int) -> memoryview:
    """What a process that has ended has written, seen in place."""
    size = os.fstat(answer.fileno()).st_size
    if not 0 < size <= max_bytes:
        return memoryview(b"")
    return memoryview(mmap.mmap(answer.fileno(), size, prot=mmap.PROT_READ))


def _max_answer(limits: DecodeLimits) -> int:
    return math.ceil(limits.longest * _ANSWER_BYTES_PER_SECOND) + Verdict.SIZE
