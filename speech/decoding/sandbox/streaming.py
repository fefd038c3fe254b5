"""Decodes a recording while it comes: the side of the service."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.voices.media import Container
from speech.decoding.recordings.wire import LENGTH, LONGEST_MESSAGE, PIECE_LENGTH
from speech.decoding.sandbox.process_answer import (
    ProcessAnswer,
    misbehaved,
    mixed,
    read_exit,
    read_verdict,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

    import numpy as np
    import numpy.typing as npt

    from speech.decoding.recordings.recording import DecodeLimits, Recording
    from speech.decoding.recordings.wire import DecodingJob, Verdict

_LONGEST_PIECE: Final = 4 << 20
"""The samples of the longest frame, 65535 of 8 channels in FLAC, fit."""

_READ_BYTES: Final = 1 << 16

_ENDS_ELSEWHERE: Final = frozenset({Container.MP3})
"""Of these, other samples belong to the whole: FFmpeg looks at their end before it begins."""

_KEPT_BYTES_PER_SECOND: Final = 48_000 * 2 * 4
"""So much is kept of a recording: what recorders make, two channels of floats, and no more."""


@dataclass(frozen=True, slots=True)
class DecodingProcess:
    """The service's ends of what connects it with one decoding process.

    Attributes:
        content: takes the recording.
        answer: says what was decoded.
        status: says how the process ended; closing it kills the process.
    """

    content: socket.socket
    answer: socket.socket
    status: socket.socket

    async def send(self, data: bytes) -> None:
        """Send a part of the recording; returns when the process has room for more."""
        # A process that ends before it has read everything says why in its answer or exit status.
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self.content, data)

    def end(self) -> None:
        """Tell the process that nothing more comes."""
        with contextlib.suppress(OSError):
            self.content.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close everything, which kills the process if it still runs."""
        for end in (self.content, self.answer, self.status):
            end.close()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Samples that were decoded.

    Attributes:
        samples: float32 [N], one channel, full scale is 1.0.
        sample_rate: in Hz; of all pieces the same.
    """

    samples: npt.NDArray[np.float32]
    sample_rate: int


class DecodedStream:
    """A recording that is decoded while it comes; use as a context manager.

    It is heard as it comes: whether the whole is accepted as a recording shows only at its end.

    Args:
        process: decodes it.
        job: what the process was told.
        limits: of the recording.
    """

    def __init__(self, process: DecodingProcess, job: DecodingJob, limits: DecodeLimits) -> None:
        self._process = process
        self._job = job
        self._limits = limits
        self._received = bytearray()
        self._kept = bytearray()
        self._most_kept = round(limits.longest * _KEPT_BYTES_PER_SECOND)
        self._verdict: Verdict | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.close()

    async def send(self, data: bytes) -> None:
        """Send the next bytes of the recording; waits while those before are not decoded."""
        await self._process.send(data)

    def end(self) -> None:
        """Tell that the recording has ended."""
        self._process.end()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yield the samples as they are decoded, until the recording ends.

        What comes from the process is checked, as a hostile recording may have taken it over.

        Raises:
            VoiceError: the recording is the reason.
            DecoderUnavailableError: the machine is.
        """
        if first := await self._receive(LONGEST_MESSAGE):
            form = read_verdict(first)
            if form is None:
                raise misbehaved()
            async for content in self._contents():
                if len(self._kept) <= self._most_kept:
                    self._kept += content
                yield Piece(mixed(memoryview(content), form), form.sample_rate)
        self._verdict = read_verdict(await self._receive(LONGEST_MESSAGE))
        if self._verdict is None or self._verdict.code:
            raise (await self._answer()).error(self._limits)

    async def whole(self) -> Recording | None:
        """Return the recording, whose pieces have ended, as `Decoder.decode` would.

        Returns:
            None if it is damaged, unusually large, or of a kind whose end says more; then only
            `Decoder.decode` can tell.

        Raises:
            VoiceError: the recording is the reason.
            ResourceLimitError: the process did not end well.
        """
        is_whole = len(self._kept) <= self._most_kept and self._job.container not in _ENDS_ELSEWHERE
        if self._verdict is None or self._verdict.damaged or not is_whole:
            return None
        answer = await self._answer()
        return await answer.concluded(self._job.container, self._limits)

    async def _answer(self) -> ProcessAnswer:
        ending = await receive_message(self._process.status)
        return ProcessAnswer(memoryview(self._kept), self._verdict, read_exit(ending))

    async def _contents(self) -> AsyncIterator[bytes]:
        """Yield the content of the pieces up to the one without any.

        Pieces that come together, as those of one message of the visitor do, are yielded as one:
        whoever takes them works for each.
        """
        left = self._job.answer_bytes
        while content := await self._receive(min(left, _LONGEST_PIECE)):
            together = [content]
            left -= len(content)
            while self._has_content_at_hand():
                together.append(await self._receive(min(left, _LONGEST_PIECE)))
                left -= len(together[-1])
            yield b"".join(together)

    def _has_content_at_hand(self) -> bool:
        if len(self._received) < PIECE_LENGTH.size:
            return False
        length: int = PIECE_LENGTH.unpack_from(self._received)[0]
        return 0 < length <= len(self._received) - PIECE_LENGTH.size

    async def _receive(self, most: int) -> bytes:
        """Read a piece; nothing if the process has ended.

        Raises:
            VoiceError: the piece is longer than it may be.
        """
        prefix = await self._read(PIECE_LENGTH.size)
        if len(prefix) < PIECE_LENGTH.size:
            return b""
        (length,) = PIECE_LENGTH.unpack(prefix)
        if length > most:
            raise misbehaved()
        return await self._read(length)

    async def _read(self, size: int) -> bytes:
        """Read `size` bytes, or what comes before the end; what comes with them is kept."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while len(self._received) < size:
                piece = await loop.sock_recv(self._process.answer, _READ_BYTES)
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
