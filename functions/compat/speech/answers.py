"""Answers that are sent while they are spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from speech.results.marking import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from functions.compat.speech.synthesis import SpokenStream, Synthesis

MARKED: Final = {"X-Digital-Source-Type": DIGITAL_SOURCE_TYPE}
"""The header that marks speech as synthetic, also where its format cannot hold the statement."""


class SpokenAnswer(StreamingResponse):
    """The content of a stream, whose place is given back however the answer ends.

    Args:
        synthesis: to which the stream belongs.
        stream: that has begun.
        media_type: of the answer.
        form: makes the answer of what is read; by default nothing is changed.
    """

    def __init__(
        self,
        synthesis: Synthesis,
        stream: SpokenStream,
        media_type: str,
        form: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda pieces: pieces,
    ) -> None:
        super().__init__(form(stream.read()), media_type=media_type, headers=MARKED)
        self._synthesis = synthesis
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._synthesis.close(self._stream)
