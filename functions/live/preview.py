"""The preview that a visitor hears while speaking, and the conversion of phrases ahead.

Both have threads of their own and end as soon as the instance is short of time: recordings that
are complete come first. Nothing of a preview is stored.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import soxr

from functions.live import protocol
from functions.live.protocol import PreviewEnd
from shared.speech.signal.streaming import Pauses
from shared.voices.voice import PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from shared.container.admission import Admission
    from shared.speech.decoding.process_output import DecodedPiece
    from shared.speech.engines.interface import ConversionOptions, ConvertsAhead, Engine
    from shared.speech.signal.sound import Samples

    Send = Callable[[str | bytes], bool]
    """Sends a message, unless others still wait to be sent; returns whether it is sent."""

_LOG = logging.getLogger(__name__)

HEARD_RATE: Final = 24_000  # sample rate of the preview, in Hz

# The longest conversion of a part; a preview that comes later disturbs the visitor.
MOST_WAITING_SECONDS: Final = 0.5

_MOST_SECONDS: Final = 0.2  # the length of a part that is converted at once

_FIRST_SAMPLE: Final = struct.Struct("<I")
_FULL_SCALE: Final = 32_767


class SoundPreview:
    """A preview from decoded samples, which goes on until it is stopped."""

    def __init__(
        self, engine: Engine, options: ConversionOptions, send: Send, executor: Executor
    ) -> None:
        self._engine = engine
        self._options = options
        self._send = send
        self._executor = executor
        self._pieces: asyncio.Queue[DecodedPiece] = asyncio.Queue()
        self._sent = 0
        self._task = asyncio.create_task(self._run())

    def feed(self, piece: DecodedPiece) -> None:
        if not self._task.done():
            self._pieces.put_nowait(piece)

    def stop(self, reason: PreviewEnd | None = None) -> None:
        if not self._task.done() and not self._task.cancelling():
            self._task.cancel()
            if reason is not None:
                self._send(protocol.hearing_ended(reason))

    async def _run(self) -> None:
        try:
            reason = await self._convert()
        except Exception:  # noqa: BLE001 - whatever it was, the recording goes on
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            reason = PreviewEnd.UNAVAILABLE
        if reason is PreviewEnd.BUSY:
            _LOG.info("hearing ended", extra={"event": "hearing_short_of_time"})
        self._send(protocol.hearing_ended(reason))

    async def _convert(self) -> PreviewEnd:
        """Convert until that is no longer possible; return the reason."""
        piece = await self._pieces.get()
        # The first one loads a graph.
        opening = partial(self._engine.open_stream, piece.sample_rate, self._options)
        loop = asyncio.get_running_loop()
        stream = await loop.run_in_executor(self._executor, opening)
        if stream is None:
            return PreviewEnd.UNSUPPORTED
        rate = self._engine.sample_rate
        resampler = None
        if rate != HEARD_RATE:
            resampler = soxr.ResampleStream(rate, HEARD_RATE, 1, dtype="float32")
        waiting = [piece.samples]
        while True:
            # A change of threads for samples that give no sound yet costs more than waiting.
            while sum(map(len, waiting)) < stream.wanted:
                waiting.append((await self._pieces.get()).samples)
            samples, most = np.concatenate(waiting), round(_MOST_SECONDS * piece.sample_rate)
            for begin in range(0, len(samples), most):
                began = time.monotonic()
                part = samples[begin : begin + most]
                heard = await loop.run_in_executor(self._executor, stream.push, part)
                if time.monotonic() - began > MOST_WAITING_SECONDS:
                    return PreviewEnd.BUSY
                if resampler is not None:
                    heard = resampler.resample_chunk(heard)
                if len(heard):
                    # A visitor who reads too slowly does not hear them.
                    pcm = np.rint(heard * _FULL_SCALE).astype("<i2")
                    self._send(_FIRST_SAMPLE.pack(self._sent) + pcm.tobytes())
                    self._sent += len(heard)
            waiting.clear()


class EarlyPhrases:
    """One recording's phrases, converted into `options.ahead` as soon as a pause ends them."""

    def __init__(
        self,
        engine: ConvertsAhead,
        options: ConversionOptions,
        admission: Admission,
        executor: Executor,
    ) -> None:
        self._engine = engine
        self._options = options
        self._admission = admission
        self._executor = executor
        self._heard: list[Samples] = []
        self._pauses: Pauses | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    def feed(self, piece: DecodedPiece) -> None:
        self._pauses = self._pauses or Pauses(piece.sample_rate)
        self._heard.append(piece.samples)
        if self._pauses.push(piece.samples):
            task = asyncio.create_task(self._convert(piece.sample_rate))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def finish(self) -> None:
        """Wait for the conversions under way, because threads cannot be stopped."""
        await asyncio.gather(*self._under_way)

    async def _convert(self, sample_rate: int) -> None:
        samples = np.concatenate(self._heard)
        try:
            async with self._admission.turn_ahead() as may_run:
                if may_run:
                    await asyncio.get_running_loop().run_in_executor(
                        self._executor,
                        self._engine.convert_ahead,
                        samples,
                        sample_rate,
                        self._options,
                    )
                    extra = {"event": "converted_ahead", "seconds": len(samples) / sample_rate}
                    _LOG.info("converted a phrase ahead", extra=extra)
        except (VoiceError, PassingError) as error:
            _LOG.info("not converted ahead: %s", error, extra={"event": "ahead_unavailable"})
        except Exception:  # noqa: BLE001 - the recording goes on and is converted at its end
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
