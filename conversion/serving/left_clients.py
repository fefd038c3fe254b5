"""Requests of Hypercorn whose clients may leave in the middle of a long answer.

Hypercorn 0.18 goes on writing to a connection that is gone. asyncio logs each such write, so one
client could fill the log: an answer of 57 MB in pieces of 32 KiB was 1,700 lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypercorn.protocol.http_stream import HTTPStream

if TYPE_CHECKING:
    from hypercorn.typing import ASGISendEvent


class LeavableStream(HTTPStream):
    """A request of Hypercorn: when its client is gone, nothing more is written."""

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Send what the application sends, unless the client is gone or the answer has ended."""
        if not self.closed:
            await super().app_send(message)
