"""Decodes and converts a recording while it comes, so that the visitor hears the character.

It has threads of its own, and it ends as soon as the instance is short of time: recordings that are
complete come first. Nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import soxr

from functions.live.messages import protocol
from functions.live.messages.protocol import HearingEnd
from shared.errors import PassingError
from shared.process.logs import about_voice
from shared.voices.voice import VoiceError
from speech.engines.interface.engine import ConversionOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from conversion.characters.lending import Characters
    from functions.live.listening.incoming import IncomingRecording, IncomingRecordings
    from shared.voices.voice import Voice
    from speech.decoding.sandbox.streaming import DecodedStream
    from speech.engines.interface.engine import Engine, Stream
    from speech.signal.arrays import Samples

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


@dataclass(frozen=True, slots=True)
class HearingTools:
    """What all hearings of an instance share.

    Attributes:
        recordings: decodes recordings while they come.
        characters: lends the characters.
        executor: its threads convert; conversions of complete recordings have others.
    """

    recordings: IncomingRecordings
    characters: Characters
    executor: Executor


class Hearings:
    """Opens hearings, as long as recordings can be decoded while they come; see OpenHearing.

    Args:
        tools: what they share.
    """

    def __init__(self, tools: HearingTools) -> None:
        self._tools = tools

    def __call__(self, voice: Voice, send: Callable[[str | bytes], bool]) -> RunningHearing | None:
        """Open the hearing of one voice, or tell the visitor that there is no place."""
        recording = self._tools.recordings.open()
        if recording is None:
            send(protocol.hearing_ended(HearingEnd.BUSY))
            return None
        return RunningHearing(self._tools, voice, recording, send)


class RunningHearing:
    """What one visitor hears; see Hearing.

    Args:
        tools: what all of them share.
        voice: whose recording comes.
        recording: its bytes; it is closed when this has ended.
        send: sends a message, unless others still wait to be sent; returns whether it is sent.
    """

    def __init__(
        self,
        tools: HearingTools,
        voice: Voice,
        recording: IncomingRecording,
        send: Callable[[str | bytes], bool],
    ) -> None:
        self._tools = tools
        self._voice = voice
        self._recording = recording
        self._send = send
        self._given = 0
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: recording.close())

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the recording; returns at once and raises nothing."""
        if not self._task.done() and not self._recording.feed(piece):
            self._end(HearingEnd.BUSY)
            self._task.cancel()

    async def aclose(self) -> None:
        """Stop; nothing is sent any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        with about_voice(self._voice.voice_id):
            try:
                await self._hear()
            except (VoiceError, PassingError) as error:
                _LOG.info("nothing is heard: %s", error, extra={"event": "hearing_unavailable"})
                self._end(HearingEnd.UNAVAILABLE)
            except _ShortOfTimeError:
                _LOG.info("hearing ended", extra={"event": "hearing_short_of_time"})
                self._end(HearingEnd.BUSY)
            except Exception:  # noqa: BLE001 - whatever it was, the recording goes on
                _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
                self._end(HearingEnd.UNAVAILABLE)

    def _end(self, reason: HearingEnd) -> None:
        self._send(protocol.hearing_ended(reason))

    async def _hear(self) -> None:
        async with (
            self._recording.decoded() as decoded,
            self._tools.characters.using(self._voice.character) as character,
        ):
            await self._convert(decoded, character.engine)

    async def _convert(self, decoded: DecodedStream, engine: Engine) -> None:
        stream: Stream | None = None
        waiting: list[Samples] = []
        to_heard_rate = _resampling(engine.sample_rate)
        async for piece in decoded.pieces():
            if stream is None:
                options = ConversionOptions(pitch_shift=self._voice.options.pitch_shift)
                # The first one loads a graph.
                stream = await self._compute(
                    partial(engine.open_stream, piece.sample_rate, options)
                )
                if stream is None:
                    self._end(HearingEnd.UNSUPPORTED)
                    return
            waiting.append(piece.samples)
            # Changing threads for samples of which nothing can be heard yet would cost more than
            # taking them later.
            if sum(map(len, waiting)) < stream.wanted:
                continue
            for samples in _parts(waiting, round(_MOST_SECONDS * piece.sample_rate)):
                async with _in_time():
                    heard = await self._compute(partial(stream.push, samples))
                self._give(to_heard_rate(heard))
            waiting.clear()

    async def _compute(self, compute: Callable[[], _Computed]) -> _Computed:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tools.executor, compute)

    def _give(self, heard: Samples) -> None:
        """Send samples; a visitor who reads too slowly does not hear them."""
        if len(heard):
            pcm = np.rint(heard * _FULL_SCALE).astype("<i2")
            self._send(_FIRST_SAMPLE.pack(self._given) + pcm.tobytes())
            self._given += len(heard)


class _ShortOfTimeError(Exception):
    """The instance cannot convert as fast as somebody speaks."""


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Run what must not take longer than the visitor can wait.

    Raises:
        _ShortOfTimeError: it took longer.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    yield
    if loop.time() - began > MOST_WAITING_SECONDS:
        raise _ShortOfTimeError


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
