"""Speech for clients that wait for it: bounded in length, in places, and in what slow readers hold.

Texts take turns piece by piece, so a short one does not wait for the whole of a long one. What is
spoken waits for its reader in a bounded buffer. A full buffer gives the place among those that
speak back until the reader has caught up, so slow readers keep nobody waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from functions.compat.service.encoders import PcmEncoder
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from functions.compat.service.encoders import Encoder
    from shared.container.admission import Admission, Turn
    from shared.speech.signal.sound import Samples

BYTES_PER_SECOND: Final = 48_000 * 2 * 2
"""The most bytes of a second of speech: 48 kHz, stereo, 16 bits. A higher rate is shorter."""

_BEHIND_SECONDS: Final = 5.0
"""How long sound has waited for a reader who may lose the stream to another client."""


_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SpeechLimits:
    """What one request, and all streams together, may take.

    Attributes:
        ahead_seconds: how much is spoken ahead of its reader, however few bytes that takes.
    """

    seconds: float = 300.0
    streams: int = 64
    buffered_bytes: int = 1 << 20
    ahead_seconds: float = 10.0

    @property
    def bytes(self) -> int:
        """The most bytes of one answer, as PCM of 16 bits."""
        return round(self.seconds * BYTES_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Speech:
    """Something to be spoken.

    Attributes:
        begin: begins to speak; each piece, float32 [N] or [N, channels], is computed when it is
            asked for.
        sample_rate: of the pieces, in Hz.
        open_encoder: begins the file that they are written to; by default PCM of 16 bits.
        estimate: estimates how many seconds it takes, before anything is spoken; None where that is
            known to be short enough.
    """

    begin: Callable[[], Iterator[Samples]]
    sample_rate: int
    open_encoder: Callable[[], Encoder] = PcmEncoder
    estimate: Callable[[], float] | None = None


class Synthesis:
    """Speaks in threads, for as long as somebody listens.

    Args:
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        admission: Admission,
        limits: SpeechLimits,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._admission = admission
        self._now = now
        self._streams: dict[SpokenStream, asyncio.Task[None]] = {}

    async def speak(
        self,
        speeches: Sequence[Speech],
        is_left: Callable[[], Awaitable[bool]],
        client: str | None = None,
    ) -> list[bytes]:
        """Speak, one after the other.

        Args:
            client: who takes turns with others; None if that does not matter.

        Raises:
            ClientLeftError: nobody waits any more.
            OverloadedError: as many requests as may be here are here.
            TextError: it cannot be spoken, or is longer than the limit.
        """
        budget = _Budget(self.limits)
        with self._admission.admit(client, waits=True):
            async with self._admission.turn(client) as turn:
                return [await self._speak_one(each, budget, is_left, turn) for each in speeches]

    async def _speak_one(
        self, speech: Speech, budget: _Budget, is_left: Callable[[], Awaitable[bool]], turn: Turn
    ) -> bytes:
        speak_next = await _begin(speech, budget)
        spoken: list[bytes] = []
        while not await is_left():
            piece = await speak_next()
            if piece is None:
                return b"".join(spoken)
            spoken.append(piece[0])
            await turn.pass_on()
        raise ClientLeftError

    async def think(self, act: Callable[[], _Result], client: str | None = None) -> _Result:
        """Do in a thread what takes a while but speaks nothing, such as reading a long text.

        Args:
            client: who takes turns with others; None if that does not matter.

        Raises:
            OverloadedError: as many requests as may be here are here.
            Exception: what `act` raised.
        """
        with self._admission.admit(client, waits=True):
            async with self._admission.turn(client):
                return await _in_thread(act)

    def turn(self, client: str | None = None) -> Turn:
        """Return the turns of a text whose sentences are spoken as streams of their own.

        Args:
            client: who takes turns with others; None if that does not matter.
        """
        return self._admission.turn(client)

    async def stream(
        self,
        speech: Speech,
        client: str | None = None,
        *,
        turn: Turn | None = None,
        seconds_before: float = 0.0,
    ) -> SpokenStream:
        """Begin to speak; return when the first piece is there.

        What has begun is spoken to its end: its answer has begun, too. So it is estimated before
        how long it will take.

        Args:
            client: who takes turns with others; None if that does not matter.
            turn: of the text of which the speech is a sentence; None if it is all of it.

        Raises:
            OverloadedError: as many requests as may be here are here, or as many streams.
            TextError: it cannot be spoken, or would be longer than the limit.
        """
        self._make_place(client)
        stream = SpokenStream(self.limits, self._now, client)
        left = self.limits.seconds - seconds_before
        task = asyncio.create_task(self._fill(stream, speech, turn or self.turn(client), left))
        self._streams[stream] = task
        try:
            await stream.wait_for_first()
        except BaseException:
            self.close(stream)
            raise
        return stream

    def close(self, stream: SpokenStream) -> None:
        """End a stream: its place is free after the piece that is spoken just now."""
        task = self._streams.pop(stream, None)
        if task is not None:
            task.cancel()

    def _make_place(self, client: str | None) -> None:
        """Find a place for one more stream; whoever reads slowest loses it."""
        of_client = sum(client is not None and each.client == client for each in self._streams)
        if of_client >= max(1, self.limits.streams // 2):
            raise OverloadedError(f"all {of_client} streams of this client are taken")
        if len(self._streams) < self.limits.streams:
            return
        slowest = max(self._streams, key=SpokenStream.seconds_behind)
        if slowest.seconds_behind() < _BEHIND_SECONDS:
            raise OverloadedError(f"all {self.limits.streams} streams are taken")
        slowest.fail(SlowReaderError())
        self.close(slowest)

    async def _fill(self, stream: SpokenStream, speech: Speech, turn: Turn, seconds: float) -> None:
        try:
            await self._speak_into(stream, speech, turn, seconds)
        except Exception as error:  # noqa: BLE001 - whoever reads the stream gets it
            stream.fail(error)
        else:
            stream.end()

    async def _speak_into(
        self, stream: SpokenStream, speech: Speech, turn: Turn, seconds: float
    ) -> None:
        with ExitStack() as place:
            place.enter_context(self._admission.admit(stream.client, waits=True))
            async with turn:
                if speech.estimate is not None and await _in_thread(speech.estimate) > seconds:
                    raise too_long(self.limits.seconds)
                speak_next = await _begin(speech)
                while (piece := await speak_next()) is not None:
                    stream.put(*piece)
                    if stream.has_room:
                        await turn.pass_on()
                        continue
                    place.close()
                    await turn.end()
                    await stream.wait_for_room()
                    await turn.begin()


class ClientLeftError(Exception):
    """Nobody waits for the answer any more."""


class SlowReaderError(Exception):
    """The client did not read what was spoken, and lost the stream to another one."""


class SpokenStream:
    """What has been spoken and waits for its reader, piece by piece as it was encoded.

    Args:
        now: a clock in seconds that never goes back.
        client: whose it is; None if that does not matter.
    """

    def __init__(
        self, limits: SpeechLimits, now: Callable[[], float], client: str | None = None
    ) -> None:
        self.client = client
        self._limits = limits
        self._now = now
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._waits_since = now()
        self._error: Exception | None = None
        self._is_ended = False
        self._changed = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether more may be spoken."""
        size = sum(len(encoded) for encoded, _ in self._waiting)
        seconds = sum(seconds for _, seconds in self._waiting)
        return size < self._limits.buffered_bytes and seconds < self._limits.ahead_seconds

    def seconds_behind(self) -> float:
        """How long sound has waited for the reader."""
        return self._now() - self._waits_since if self._waiting else 0.0

    def put(self, encoded: bytes, seconds: float) -> None:
        """Add a piece of speech, and how long it is."""
        if not encoded:
            return
        if not self._waiting:
            self._waits_since = self._now()
        self._waiting.append((encoded, seconds))
        self._changed.set()

    def end(self) -> None:
        """Say that everything was spoken."""
        self._is_ended = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """Let the reader get an error after what was spoken before it."""
        if isinstance(error, SlowReaderError):
            self._waiting.clear()
        self._error = error
        self._changed.set()

    async def wait_for_first(self) -> None:
        """Wait until something, or all of nothing, was spoken.

        Raises:
            TextError: it cannot be spoken.
            OverloadedError: there is no place.
        """
        while not self._waiting and not self._is_ended:
            if self._error is not None:
                raise self._error
            await self._change()

    async def wait_for_room(self) -> None:
        """Wait until the reader has read enough."""
        while not self.has_room:
            await self._change()

    async def read(self) -> AsyncGenerator[bytes]:
        """Read what is spoken, to the end.

        Raises:
            SlowReaderError: see there.
        """
        while True:
            while self._waiting:
                piece, _ = self._waiting.popleft()
                self._waits_since = self._now()
                self._changed.set()
                yield piece
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class _Budget:
    """How much one request may still get."""

    def __init__(self, limits: SpeechLimits) -> None:
        self._limits = limits
        self._seconds = limits.seconds
        self._bytes = limits.bytes

    def take(self, piece: Samples, sample_rate: int) -> None:
        """Take a piece of it.

        Raises:
            TextError: nothing is left.
        """
        self._seconds -= len(piece) / sample_rate
        self._bytes -= 2 * piece.size
        if self._seconds < 0 or self._bytes < 0:
            raise too_long(self._limits.seconds)


def too_long(seconds: float) -> TextError:
    """Build the error of a speech that is longer than is spoken at once."""
    return TextError(
        TextErrorCode.TEXT_TOO_LONG,
        f"The speech would take more than the {seconds:g} seconds that are spoken at once, or more"
        " bytes than that at 48 kHz in stereo. Send it in parts.",
    )


async def _begin(
    speech: Speech, budget: _Budget | None = None
) -> Callable[[], Awaitable[tuple[bytes, float] | None]]:
    """Begin to speak.

    Returns:
        Speaks the next piece in a thread, and says how long it is; None at the end.
    """
    written = await _in_thread(lambda: _write(speech, speech.begin(), budget))
    return partial(_in_thread, partial(next, written, None))


async def _in_thread(act: Callable[[], _Result]) -> _Result:
    """Run something in a thread, to its end also if it is cancelled, however often.

    Nothing stops a thread. Who gave its place to somebody else before it has ended would let more
    of them speak than there are places, and clients that only begin and leave could fill them all.
    """
    acting = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        return await asyncio.shield(acting)
    except asyncio.CancelledError:
        while not acting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({acting})
        # Nobody is left to hear of an error.
        _ = acting.cancelled() or acting.exception()
        raise


def _write(
    speech: Speech, pieces: Iterator[Samples], budget: _Budget | None
) -> Iterator[tuple[bytes, float]]:
    """Encode pieces as they are spoken; encoding counts as a part of speaking."""
    encoder = speech.open_encoder()
    for piece in pieces:
        if budget is not None:
            budget.take(piece, speech.sample_rate)
        yield encoder.encode(piece), len(piece) / speech.sample_rate
    yield encoder.finish(), 0.0
