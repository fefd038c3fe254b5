"""Counting the calls that pass between clients of Firestore and its emulator."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from hpack import Decoder
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITE: Final = "Commit"
READ: Final = "BatchGetDocuments"

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER_BYTES: Final = 9
_LARGEST_TABLE_BYTES: Final = 1 << 20


class CountingProxy:
    """A TCP proxy before the emulator that counts gRPC calls by the method's name.

    Args:
        target: the emulator, HOST:PORT.
    """

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self._piping: set[asyncio.Task[None]] = set()
        self.calls: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        for task in self._piping:
            task.cancel()
        await asyncio.gather(*self._piping, return_exceptions=True)

    @property
    def address(self) -> str:
        """Where it listens, HOST:PORT."""
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection(self._host, int(self._port))
        for work in (
            self._pipe(reader, their_writer, CallParser()),
            self._pipe(their_reader, writer, None),
        ):
            task = asyncio.create_task(work)
            self._piping.add(task)
            task.add_done_callback(self._piping.discard)

    async def _pipe(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, parser: CallParser | None
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
                if parser is not None:
                    self.calls.update(parser.feed(data))
        sink.close()


class CallParser:
    """Finds the calls in what a client sends over one HTTP/2 connection (RFC 9113)."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._block = b""
        self._is_begun = False
        self._decoder = Decoder()
        # How large a table the server allows is said in the other direction.
        self._decoder.max_allowed_table_size = _LARGEST_TABLE_BYTES

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the methods' names that the data complete; nothing for what is not HTTP/2."""
        self._unread += data
        if not self._is_begun:
            if not self._unread.startswith(_PREFACE):
                return
            del self._unread[: len(_PREFACE)]
            self._is_begun = True
        for frame in self._frames():
            if isinstance(frame, HeadersFrame | ContinuationFrame):
                self._block += frame.data
                if "END_HEADERS" in frame.flags:
                    yield from self._methods()

    def _frames(self) -> Iterator[Frame]:
        while len(self._unread) >= _FRAME_HEADER_BYTES:
            header = memoryview(bytes(self._unread[:_FRAME_HEADER_BYTES]))
            frame, length = Frame.parse_frame_header(header)
            end = _FRAME_HEADER_BYTES + length
            if len(self._unread) < end:
                return
            frame.parse_body(memoryview(bytes(self._unread[_FRAME_HEADER_BYTES:end])))
            del self._unread[:end]
            yield frame

    def _methods(self) -> Iterator[str]:
        # Every block is decoded, because each changes the table for those that follow.
        headers = self._decoder.decode(self._block, raw=True)
        self._block = b""
        for name, value in headers:
            if name == b":path":
                yield value.decode().rpartition("/")[2]
