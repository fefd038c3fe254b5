"""What one visitor hears of the character while speaking.

It is computed in threads of its own and ends as soon as the instance is short of time: recordings
that are complete come first. Nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import soxr

from functions.live.messages import protocol
from functions.live.messages.protocol import HearingEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from speech.decoding.sandbox.streaming import Piece
    from speech.engines.interface.engine import ConversionOptions, Engine
    from speech.signal.arrays import Samples

    Send = Callable[[str | bytes], bool]
    """Sends a message, unless others still wait to be sent; returns whether it is sent."""

_Computed = TypeVar("_Computed")

_LOG = logging.getLogger(__name__)

HEARD_RATE: Final = 24_000
"""Sample rate of what the visitor hears, in Hz."""

MOST_WAITING_SECONDS: Final = 0.5
"""How long decoded samples may wait to be converted; longer, and what is heard disturbs."""

_MOST_SECONDS: Final = 0.2
"""How much is converted at once."""

_FIRST_SAMPLE: Final = struct.Struct("<I")
_FULL_SCALE: Final = 32_767


class Hearing:
    """Converts decoded samples and sends them to the visitor, until it is stopped.

    Args:
        engine: of the character.
        options: of the voice.
        send: sends a message to the visitor.
        executor: its threads convert; conversions of complete recordings have others.
    """

    def __init__(
        self, engine: Engine, options: ConversionOptions, send: Send, executor: Executor
    ) -> None:
        self._engine = engine
        self._options = options
        self._send = send
        self._executor = executor
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._given = 0
        self._task = asyncio.create_task(self._run())

    def take(self, piece: Piece) -> None:
        """Take the next decoded samples; returns at once."""
        if not self._task.done():
            self._pieces.put_nowait(piece)

    def stop(self, reason: HearingEnd | None = None) -> None:
        """Send nothing more; tell the visitor why, if there is a reason."""
        if not self._task.done() and not self._task.cancelling():
            self._task.cancel()
            if reason is not None:
                self._send(protocol.hearing_ended(reason))

    async def _run(self) -> None:
        try:
            reason = await self._convert()
        except Exception:  # noqa: BLE001 - whatever it was, the recording goes on
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            reason = HearingEnd.UNAVAILABLE
        if reason is HearingEnd.BUSY:
            _LOG.info("hearing ended", extra={"event": "hearing_short_of_time"})
        self._send(protocol.hearing_ended(reason))

    async def _convert(self) -> HearingEnd:
        """Convert until that is no longer possible; return why."""
        piece = await self._pieces.get()
        # The first one loads a graph.
        opening = partial(self._engine.open_stream, piece.sample_rate, self._options)
        stream = await self._compute(opening)
        if stream is None:
            return HearingEnd.UNSUPPORTED
        to_heard_rate = _resampling(self._engine.sample_rate)
        waiting = [piece.samples]
        while True:
            # Changing threads for samples of which nothing can be heard yet would cost more than
            # taking them later.
            while sum(map(len, waiting)) < stream.wanted:
                waiting.append((await self._pieces.get()).samples)
            for samples in _parts(waiting, round(_MOST_SECONDS * piece.sample_rate)):
                began = time.monotonic()
                heard = await self._compute(partial(stream.push, samples))
                if time.monotonic() - began > MOST_WAITING_SECONDS:
                    return HearingEnd.BUSY
                self._give(to_heard_rate(heard))
            waiting.clear()

    async def _compute(self, compute: Callable[[], _Computed]) -> _Computed:
        return await asyncio.get_running_loop().run_in_executor(self._executor, compute)

    def _give(self, heard: Samples) -> None:
        """Send samples; a visitor who reads too slowly does not hear them."""
        if len(heard):
            pcm = np.rint(heard * _FULL_SCALE).astype("<i2")
            self._send(_FIRST_SAMPLE.pack(self._given) + pcm.tobytes())
            self._given += len(heard)


def _parts(pieces: Sequence[Samples], most: int) -> Iterator[Samples]:
    """Join pieces, and cut them into parts of at most so many samples."""
    samples = np.concatenate(pieces)
    for begin in range(0, len(samples), most):
        yield samples[begin : begin + most]


def _resampling(rate: int) -> Callable[[Samples], Samples]:
    """Build the resampler of a voice that goes on to HEARD_RATE."""
    if rate == HEARD_RATE:
        return lambda samples: samples
    return soxr.ResampleStream(rate, HEARD_RATE, 1, dtype="float32").resample_chunk
