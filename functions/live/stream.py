"""One decode of a recording while it comes, for a preview and for conversions ahead.

Both have threads of their own and end as soon as the instance is short of time: recordings that
are complete come first. Nothing of a preview is stored.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import soxr

from functions.live import protocol
from functions.live.protocol import PreviewEnd
from shared.characters.own.store import require_usable
from shared.conversion.stages import conversion_options
from shared.runtime.logs import about_voice
from shared.speech.engines.interface import ConvertsAhead, EarlyPieces
from shared.speech.signal.streaming import Pauses
from shared.voices.voice import PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from concurrent.futures import Executor

    from shared.characters.own.store import OwnCharacterStore
    from shared.container.admission import Admission
    from shared.conversion.characters import CharacterLender, LoadedCharacter
    from shared.speech.decoding.process_output import DecodedPiece, DecodedStream
    from shared.speech.decoding.recording import Recording
    from shared.speech.engines.interface import ConversionOptions, Engine
    from shared.speech.signal.sound import Samples
    from shared.voices.voice import Voice

    Send = Callable[[str | bytes], bool]
    """Sends a message, unless others still wait to be sent; returns whether it is sent."""

    OpenStream = Callable[[bytes], Awaitable[DecodedStream]]
    """Begins to decode a recording whose first bytes are given; see `Decoder.open_stream`."""

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


MOST_WAITING_BYTES: Final = 256 * 1024  # to be decoded; with more, the instance is short of time
FINISHING_SECONDS: Final = 5.0  # for the last bytes; after that the whole is decoded instead
_HEAD_BYTES: Final = 1024  # the bytes of a recording that are enough to tell its format


class RecordingFeed:
    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0

    def feed(self, piece: bytes) -> bool:
        """Add the next bytes; return False if more wait than can be decoded in time."""
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > MOST_WAITING_BYTES:
            return False
        self._pieces.put_nowait(piece)
        return True

    def end(self) -> None:
        self._pieces.put_nowait(b"")

    @asynccontextmanager
    async def decode(self, open_stream: OpenStream) -> AsyncIterator[DecodedStream]:
        """Decode the bytes inside the context; raise VoiceError for an unknown format."""
        stream, head = await self._begin(open_stream)

        async def send() -> None:
            await stream.send(head)
            while piece := await self._pieces.get():
                await stream.send(piece)
                self._waiting_bytes -= len(piece)
            stream.end()

        with stream:
            sending = asyncio.create_task(send())
            try:
                yield stream
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _begin(self, open_stream: OpenStream) -> tuple[DecodedStream, bytes]:
        """Begin to decode; return the bytes so far, which recorders may hand out one by one."""
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


@dataclass(frozen=True, slots=True)
class StreamDependencies:
    """The collaborators of all streams, with threads for previews and for conversions ahead."""

    open_stream: OpenStream
    characters: CharacterLender
    admission: Admission
    heard_in: Executor
    ahead_in: Executor
    own_characters: OwnCharacterStore | None = None


class RecordingStreams:
    """The streams of recordings; as many are decoded at once as there are places."""

    def __init__(self, tools: StreamDependencies, places: int) -> None:
        self.tools = tools
        self.places_left = places
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, voice: Voice, send: Send | None) -> RecordingStream:
        """Begin with the recording of a voice; without `send` there is no preview."""
        stream = RecordingStream(self, voice, send)
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)
        return stream


class RecordingStream:
    """The work on one recording while it comes; the conversion at its end uses it.

    The character is lent once, until the conversion has ended. If anything fails, the conversion
    does everything itself.
    """

    def __init__(self, streams: RecordingStreams, voice: Voice, send: Send | None) -> None:
        self._streams = streams
        self._voice = voice
        self._send = send
        self._incoming = RecordingFeed()
        self._preview: SoundPreview | None = None
        loop = asyncio.get_running_loop()
        self._character: asyncio.Future[LoadedCharacter | None] = loop.create_future()
        self._recording: asyncio.Future[Recording | None] = loop.create_future()
        self._is_over = asyncio.Event()
        self.ahead = EarlyPieces()
        self.task = asyncio.create_task(self._run())

        def resolve_results(_: object) -> None:
            for result in (self._character, self._recording):
                if not result.done():
                    result.set_result(None)

        # Also if it is cancelled before it has begun, nobody must wait for its results.
        self.task.add_done_callback(resolve_results)

    def feed(self, piece: bytes) -> None:
        """Add the next bytes of the recording; this returns at once and raises nothing."""
        if not self.task.done() and not self._incoming.feed(piece):
            self._end_preview(PreviewEnd.BUSY)
            self.task.cancel()

    def end(self) -> None:
        """End the recording; the visitor hears nothing more of it."""
        self._end_preview()
        self._incoming.end()

    def close(self) -> None:
        """Stop; the character is returned when nothing uses it any more."""
        self._end_preview()
        self._is_over.set()
        if not self._recording.done():
            self.task.cancel()

    async def character(self) -> LoadedCharacter | None:
        """Return the character, which is lent until `close`; None if it is not lent."""
        character = await asyncio.shield(self._character)
        return None if self.task.cancelling() else character

    async def decoded(self) -> Recording | None:
        try:
            async with asyncio.timeout(FINISHING_SECONDS):
                return await asyncio.shield(self._recording)
        except TimeoutError:
            return None

    async def _run(self) -> None:
        with about_voice(self._voice.voice_id), self._report_failures():
            tools, options = self._streams.tools, conversion_options(self._voice, self.ahead)
            await require_usable(self._voice, tools.own_characters)
            async with tools.characters.lend(self._voice.character) as character:
                engine, phrases = character.engine, None
                if isinstance(engine, ConvertsAhead):
                    phrases = EarlyPhrases(engine, options, tools.admission, tools.ahead_in)
                elif self._send is None:
                    return
                if not self._streams.places_left:
                    self._end_preview(PreviewEnd.BUSY)
                    return
                if self._send is not None:
                    self._preview = SoundPreview(engine, options, self._send, tools.heard_in)
                self._character.set_result(character)
                try:
                    self._recording.set_result(await self._decode(phrases))
                    await self._is_over.wait()
                finally:
                    if phrases is not None:
                        await phrases.finish()

    async def _decode(self, phrases: EarlyPhrases | None) -> Recording | None:
        self._streams.places_left -= 1
        recording = None
        try:
            with self._report_failures():
                async with self._incoming.decode(self._streams.tools.open_stream) as stream:
                    async for piece in stream.pieces():
                        for listener in (self._preview, phrases):
                            if listener is not None:
                                listener.feed(piece)
                    recording = await stream.whole()
        finally:
            self._streams.places_left += 1
        return recording

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        """Log errors and tell the visitor: the recording goes on and is converted at its end."""
        try:
            yield
        except (VoiceError, PassingError) as error:
            _LOG.info("not decoded yet: %s", error, extra={"event": "listening_unavailable"})
            self._end_preview(PreviewEnd.UNAVAILABLE)
        except Exception:  # noqa: BLE001 - see above
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            self._end_preview(PreviewEnd.UNAVAILABLE)

    def _end_preview(self, reason: PreviewEnd | None = None) -> None:
        send, self._send = self._send, None
        if self._preview is not None:
            self._preview.stop(reason)
        elif send is not None and reason is not None:
            send(protocol.hearing_ended(reason))
