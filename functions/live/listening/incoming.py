"""The bytes of a recording on their way to the process that decodes them while they come."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from shared.voices.voice import VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from speech.decoding.sandbox.streaming import DecodedStream

MOST_WAITING_BYTES: Final = 256 * 1024
"""How many bytes may wait to be decoded; with more, the instance is short of time."""

_HEAD_BYTES: Final = 1024
"""How much of a recording is enough to tell its format, at the latest."""


class OpenStream(Protocol):
    """Begins to decode a recording; see `Decoder.open_stream`, which has its limits here."""

    async def __call__(self, head: bytes) -> DecodedStream:
        """Begin with the first bytes; they have to be sent, too."""
        ...


class Incoming:
    """The bytes of one recording that wait to be decoded."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0

    def feed(self, piece: bytes) -> bool:
        """Take the next bytes; returns at once, False if more wait than can be decoded in time."""
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > MOST_WAITING_BYTES:
            return False
        self._pieces.put_nowait(piece)
        return True

    def end(self) -> None:
        """Note that nothing more comes."""
        self._pieces.put_nowait(b"")

    @asynccontextmanager
    async def decoded(self, open_stream: OpenStream) -> AsyncIterator[DecodedStream]:
        """Decode what comes, for the time inside the context.

        Raises:
            VoiceError: the format is not known.
            DecoderUnavailableError: nothing can be decoded now.
        """
        stream, head = await self._begin(open_stream)
        with stream:
            sending = asyncio.create_task(self._send(stream, head))
            try:
                yield stream
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _begin(self, open_stream: OpenStream) -> tuple[DecodedStream, bytes]:
        """Begin to decode; recorders may hand out the first bytes one by one.

        Returns:
            The stream, and the bytes that have come until then.
        """
        head = b""
        while True:
            piece = await self._pieces.get()
            self._waiting_bytes -= len(piece)
            head += piece
            try:
                return await open_stream(head), head
            except VoiceError:
                if not piece or len(head) >= _HEAD_BYTES:
                    raise

    async def _send(self, stream: DecodedStream, head: bytes) -> None:
        await stream.send(head)
        while piece := await self._pieces.get():
            await stream.send(piece)
            self._waiting_bytes -= len(piece)
        stream.end()
