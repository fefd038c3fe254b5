"""Decodes recordings while they come, each in a decoding process that is held open."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from shared.voices.voice import VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from speech.decoding.decoder import Decoder
    from speech.decoding.recordings.recording import DecodeLimits
    from speech.decoding.sandbox.streaming import DecodedStream

MOST_WAITING_BYTES: Final = 256 * 1024
"""How many bytes may wait to be decoded; with more, the instance is short of time."""

_HEAD_BYTES: Final = 1024
"""How much of a recording is enough to tell its format, at the latest."""


class IncomingRecordings:
    """Opens recordings that are decoded while they come, as many at once as there are places.

    Args:
        decoder: decodes them.
        limits: of a recording.
        wall_seconds: how long a recording may come.
        places: how many there may be at once.
    """

    def __init__(
        self, decoder: Decoder, limits: DecodeLimits, wall_seconds: float, places: int
    ) -> None:
        self._decoder = decoder
        self._limits = limits
        self._wall_seconds = wall_seconds
        self._left = places

    def open(self) -> IncomingRecording | None:
        """Take a place; None if there is none. Whoever has it closes the recording."""
        if self._left == 0:
            return None
        self._left -= 1
        return IncomingRecording(self)

    async def begin(self, head: bytes) -> DecodedStream:
        """Begin to decode; see `Decoder.open_stream`."""
        return await self._decoder.open_stream(
            head, limits=self._limits, wall_seconds=self._wall_seconds
        )

    def free(self) -> None:
        """Give a place back."""
        self._left += 1


class IncomingRecording:
    """One recording; its bytes wait here to be decoded.

    Args:
        recordings: to which it gives its place back.
    """

    def __init__(self, recordings: IncomingRecordings) -> None:
        self._recordings = recordings
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0

    def feed(self, piece: bytes) -> bool:
        """Take the next bytes; returns at once, False if more wait than can be decoded in time."""
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > MOST_WAITING_BYTES:
            return False
        self._incoming.put_nowait(piece)
        return True

    def close(self) -> None:
        """Give the place back."""
        self._recordings.free()

    @asynccontextmanager
    async def decoded(self) -> AsyncIterator[DecodedStream]:
        """Decode what comes, for the time inside the context.

        Raises:
            VoiceError: the format is not known, or the recording is damaged.
            DecoderUnavailableError: nothing can be decoded now.
        """
        decoded, head = await self._begin()
        with decoded:
            sending = asyncio.create_task(self._send(decoded, head))
            try:
                yield decoded
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _begin(self) -> tuple[DecodedStream, bytes]:
        """Begin to decode; recorders may hand out the first bytes one by one.

        Returns:
            What is decoded, and the bytes that have come until then.
        """
        head = b""
        while True:
            piece = await self._incoming.get()
            self._waiting_bytes -= len(piece)
            head += piece
            try:
                return await self._recordings.begin(head), head
            except VoiceError:
                if len(head) >= _HEAD_BYTES:
                    raise

    async def _send(self, decoded: DecodedStream, head: bytes) -> None:
        await decoded.send(head)
        while True:
            piece = await self._incoming.get()
            await decoded.send(piece)
            self._waiting_bytes -= len(piece)
