"""The answer of a decoding process, checked, and the recording or error that it means."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from shared.speech.decoding.recording import (
    DecodeLimits,
    Recording,
    as_float,
    check_recording,
    downmix,
    too_long,
)
from shared.speech.decoding.wire import (
    LENGTH,
    LONGEST_MESSAGE,
    MAX_CHANNELS,
    MAX_SAMPLE_RATE,
    MIN_SAMPLE_RATE,
    PIECE_LENGTH,
    SAMPLE_TYPES,
    DecodingVerdict,
    ProcessExit,
    split_answer,
)
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    import numpy.typing as npt

    from shared.speech.decoding.wire import DecodingJob


_TYPES: Final = (np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64)
_DTYPES: Final = dict(zip(SAMPLE_TYPES, _TYPES, strict=True))

# The signals that end a program when its input makes it misbehave. Not every system has all.
_CRASHES: Final = frozenset(
    -signal.Signals[name]
    for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
    if hasattr(signal, name)
)
_KILLED: Final = -9  # the numbers are the same on all systems that have these signals
OUT_OF_TIME: Final = -14

# On Windows a crash ends a process with a status from here on (NTSTATUS values of severity error).
_FIRST_WINDOWS_CRASH: Final = 0xC0000000

# Up to this size, checking the answer takes less time than starting a thread for it.
_CHECKED_AT_ONCE_BYTES: Final = 4 << 20

_VERDICT: Final = TypeAdapter(DecodingVerdict)
_EXIT: Final = TypeAdapter(ProcessExit)

_MISBEHAVED: Final = "The recording made its decoder misbehave."
_MOST_MISSING: Final = 86_400.0
_LONGEST_PIECE: Final = (
    4 << 20
)  # the samples of the longest frame, 65535 of 8 channels in FLAC, fit
_READ_BYTES: Final = 1 << 16

# Containers of which a whole has other samples: FFmpeg looks at their end before it begins.
_ENDS_ELSEWHERE: Final = frozenset({Container.MP3})
# The most that is kept of a recording: two channels of floats, as recorders make them.
_KEPT_BYTES_PER_SECOND: Final = 48_000 * 2 * 4


class DecoderUnavailableError(PassingError):
    """The machine, not the recording, is the reason why decoding failed; trying again may help."""


class ResourceLimitError(DecoderUnavailableError):
    """The process got too little time or was killed; if again, the recording is the reason."""


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """The samples, verdict and end of a process; `exit` is None if the zygote ended, too."""

    body: memoryview
    verdict: DecodingVerdict | None
    exit: ProcessExit | None

    @classmethod
    def read(cls, written: memoryview, exit_: ProcessExit) -> ProcessAnswer:
        body, text = split_answer(written)
        return cls(body, read_verdict(text), exit_)

    def was_killed(self, limits: DecodeLimits) -> bool:
        """Return whether another program killed the process: then the recording may be fine."""
        if self.exit is None:
            return True
        return self.exit.status == _KILLED and self.exit.cpu_seconds < limits.cpu_allowance

    async def conclude_in_thread(self, container: Container, limits: DecodeLimits) -> Recording:
        if len(self.body) <= _CHECKED_AT_ONCE_BYTES:
            return self.conclude(container, limits)
        return await asyncio.to_thread(self.conclude, container, limits)

    def conclude(self, container: Container, limits: DecodeLimits) -> Recording:
        """Check everything, as a hostile recording may have taken the process over."""
        if self.exit is None or self.exit.status or self.verdict is None or self.verdict.code:
            raise self.error(limits)
        with np.errstate(invalid="ignore", over="ignore"):
            recording = Recording(
                samples=mix_samples(self.body, self.verdict, self.verdict.samples),
                sample_rate=self.verdict.sample_rate,
                container=container,
                codec=self.verdict.codec,
                channels=self.verdict.channels,
                damaged=self.verdict.damaged,
                missing_seconds=self.verdict.missing_seconds,
                cpu_seconds=self.exit.cpu_seconds,
                confined=self.verdict.confined,
            )
            check_recording(recording, limits)
        return recording

    def error(self, limits: DecodeLimits) -> Exception:
        status = None if self.exit is None else self.exit.status
        if status == 0 and self.verdict is not None:
            code = self.verdict.code
            if code == ErrorCode.TOO_LONG:
                return too_long(limits)
            known = ErrorCode(code) if code in set(ErrorCode) else ErrorCode.CORRUPT
            return VoiceError(known, self.verdict.message)
        if status in _CRASHES or (status or 0) >= _FIRST_WINDOWS_CRASH:
            return VoiceError(
                ErrorCode.CORRUPT, "The recording is damaged so that it cannot be read."
            )
        if status == OUT_OF_TIME:
            return ResourceLimitError("the decoding process got too little processor time")
        return VoiceError(
            ErrorCode.TOO_COMPLEX,
            "The recording takes more time or memory to decode than it may.",
        )


def read_verdict(text: bytes) -> DecodingVerdict | None:
    """Read the verdict of a process that is not trusted; None if this is no verdict."""
    try:
        return _VERDICT.validate_json(text, strict=True)
    except ValidationError:
        return None


def read_exit(text: bytes) -> ProcessExit | None:
    try:
        return _EXIT.validate_json(text, strict=True)
    except ValidationError:
        return None


def mix_samples(
    body: memoryview, verdict: DecodingVerdict, count: int | None = None
) -> npt.NDArray[np.float32]:
    """Return what a process sent as float32 [N], one channel; refuse an impossible verdict."""
    sent = len(verdict.weights)
    dtype = np.dtype(_DTYPES.get(verdict.sample_type, np.float32))
    if (
        verdict.sample_type not in _DTYPES
        or not MIN_SAMPLE_RATE <= verdict.sample_rate <= MAX_SAMPLE_RATE
        or not 1 <= sent <= verdict.channels <= MAX_CHANNELS
        or not 0 < sum(verdict.weights) < math.inf
        or not 0 <= verdict.missing_seconds < _MOST_MISSING
        or len(body) % (sent * dtype.itemsize)
        or count not in {None, len(body) // (sent * dtype.itemsize)}
    ):
        raise VoiceError(ErrorCode.CORRUPT, _MISBEHAVED)
    with np.errstate(invalid="ignore", over="ignore"):
        frames = as_float(np.frombuffer(body, dtype).reshape(-1, sent))
        return downmix(frames, verdict.weights)


class ProcessSockets(NamedTuple):
    content: socket.socket
    answer: socket.socket
    status: socket.socket


@dataclass(frozen=True, slots=True, eq=False)
class DecodedPiece:
    """Decoded samples: float32 [N], one channel, full scale 1.0, all at one sample rate."""

    samples: npt.NDArray[np.float32]
    sample_rate: int


class DecodedStream:
    """A recording that is decoded while it comes; only its end tells whether it is accepted."""

    def __init__(self, sockets: ProcessSockets, job: DecodingJob, limits: DecodeLimits) -> None:
        self._sockets = sockets
        self._job = job
        self._limits = limits
        self._received = bytearray()
        self._kept = bytearray()
        self._most_kept = round(limits.longest * _KEPT_BYTES_PER_SECOND)
        self._verdict: DecodingVerdict | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # This kills the process if it still runs.
        for end in self._sockets:
            end.close()

    async def send(self, data: bytes) -> None:
        """Send a part of the recording; returns when the process has room for more."""
        # A process that ends before it has read everything says why in its answer or exit status.
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._sockets.content, data)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._sockets.content.shutdown(socket.SHUT_WR)

    async def pieces(self) -> AsyncIterator[DecodedPiece]:
        """Yield the samples as they come, checked; the errors are those of `Decoder.decode`."""
        if first := await self._receive(LONGEST_MESSAGE):
            form = read_verdict(first)
            if form is None:
                raise VoiceError(ErrorCode.CORRUPT, _MISBEHAVED)
            async for content in self._contents():
                if len(self._kept) <= self._most_kept:
                    self._kept += content
                yield DecodedPiece(mix_samples(memoryview(content), form), form.sample_rate)
        self._verdict = read_verdict(await self._receive(LONGEST_MESSAGE))
        if self._verdict is None or self._verdict.code:
            raise (await self._answer()).error(self._limits)

    async def whole(self) -> Recording | None:
        """Return the recording after its pieces; None if only `Decoder.decode` can tell."""
        is_whole = len(self._kept) <= self._most_kept and self._job.container not in _ENDS_ELSEWHERE
        told = self._verdict
        if told is None or told.damaged or told.needs_whole or not is_whole:
            return None
        answer = await self._answer()
        return await answer.conclude_in_thread(self._job.container, self._limits)

    async def _answer(self) -> ProcessAnswer:
        ending = await receive_message(self._sockets.status)
        return ProcessAnswer(memoryview(self._kept), self._verdict, read_exit(ending))

    async def _contents(self) -> AsyncIterator[bytes]:
        """Yield the content of the pieces up to the empty one; joint arrivals become one."""
        left, together = self._job.answer_bytes, b""
        while content := await self._receive(min(left, _LONGEST_PIECE)):
            left -= len(content)
            together += content
            following = int.from_bytes(self._received[: PIECE_LENGTH.size], "big")
            if not 0 < following <= len(self._received) - PIECE_LENGTH.size:
                yield together
                together = b""

    async def _receive(self, most: int) -> bytes:
        prefix = await self._read(PIECE_LENGTH.size)
        if len(prefix) < PIECE_LENGTH.size:
            return b""
        (length,) = PIECE_LENGTH.unpack(prefix)
        if length > most:
            raise VoiceError(ErrorCode.CORRUPT, _MISBEHAVED)
        return await self._read(length)

    async def _read(self, size: int) -> bytes:
        """Read `size` bytes, or what comes before the end; further bytes are kept."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while len(self._received) < size:
                piece = await loop.sock_recv(self._sockets.answer, _READ_BYTES)
                if not piece:
                    break
                self._received += piece
        read = bytes(self._received[:size])
        del self._received[:size]
        return read


async def receive_message(source: socket.socket) -> bytes:
    """Read a message with its length in front; less if the end comes before."""
    prefix = await receive(source, LENGTH.size)
    return await receive(source, *LENGTH.unpack(prefix)) if len(prefix) == LENGTH.size else b""


async def receive(source: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = b""
    with contextlib.suppress(ConnectionError):
        while len(received) < size:
            piece = await loop.sock_recv(source, size - len(received))
            if not piece:
                break
            received += piece
    return received
