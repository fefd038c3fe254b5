"""Speech for clients that wait for it, with bounds on its length, its places and its buffers.

Texts take turns piece by piece, so a short one does not wait for the whole of a long one. Spoken
pieces wait for their reader in a bounded buffer. A full buffer gives the place of its text back
until the reader has caught up, so slow readers keep nobody waiting.
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

# The most bytes of a second of speech: 48 kHz, stereo, 16 bits. A higher rate is shorter.
BYTES_PER_SECOND: Final = 48_000 * 2 * 2
_BEHIND_SECONDS: Final = (
    5.0  # a reader that is this far behind may lose its stream to another client
)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SpeechLimits:
    seconds: float = 300.0
    streams: int = 64
    buffered_bytes: int = 1 << 20
    ahead_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Speech:
    """Something to speak.

    `begin` yields each piece, float32 [N] or [N, channels], when it is computed. `open_encoder`
    begins the file of the pieces. `estimate` gives the seconds, unless they are few anyway.
    """

    begin: Callable[[], Iterator[Samples]]
    sample_rate: int
    open_encoder: Callable[[], Encoder] = PcmEncoder
    estimate: Callable[[], float] | None = None


class Synthesis:
    """Speaks in threads, for as long as somebody listens.

    A `client` takes turns with other clients; None if that does not matter. All methods that speak
    raise OverloadedError if all places are taken, and TextError for a text that cannot be spoken or
    takes longer than the limit.
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
        """Speak one after the other; raise ClientLeftError when nobody waits any more."""
        budget = _Budget(self.limits)

        async def speak_one(speech: Speech) -> bytes:
            encoded, spoken = _encode(speech, budget), list[bytes]()
            while not await is_left():
                piece = await _in_thread(partial(next, encoded, None))
                if piece is None:
                    return b"".join(spoken)
                spoken.append(piece[0])
                await turn.pass_on()
            raise ClientLeftError

        with self._admission.admit(client):
            async with self._admission.turn(client) as turn:
                await self._check_length(speeches, self.limits.seconds)
                return [await speak_one(each) for each in speeches]

    async def _check_length(self, speeches: Sequence[Speech], most_seconds: float) -> None:
        estimates = [each.estimate for each in speeches if each.estimate is not None]
        if estimates and await _in_thread(lambda: sum(one() for one in estimates)) > most_seconds:
            raise too_long(self.limits.seconds)

    async def compute(self, act: Callable[[], _Result], client: str | None = None) -> _Result:
        """Run in a thread, in the client's turn: reading a long text takes a while, too."""
        with self._admission.admit(client):
            async with self._admission.turn(client):
                return await _in_thread(act)

    def turn(self, client: str | None = None) -> Turn:
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

        Speech that has begun goes on to its end, because its answer has begun, too. So its length
        is estimated before. `turn` is that of the text of which the speech is a sentence.
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
        task = self._streams.pop(stream, None)
        if task is not None:
            task.cancel()

    def _make_place(self, client: str | None) -> None:
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
            with ExitStack() as place:
                place.enter_context(self._admission.admit(stream.client))
                async with turn:
                    await self._check_length([speech], seconds)
                    encoded = _encode(speech)
                    while piece := await _in_thread(partial(next, encoded, None)):
                        stream.put(*piece)
                        if stream.has_room:
                            await turn.pass_on()
                            continue
                        place.close()
                        await turn.end()
                        await stream.wait_for_room()
                        await turn.begin()
        except Exception as error:  # noqa: BLE001 - the reader of the stream gets it
            stream.fail(error)
        else:
            stream.end()


class ClientLeftError(Exception):
    pass


class SlowReaderError(Exception):
    """The client did not read, and lost its stream to another one."""


class SpokenStream:
    """Encoded pieces that wait for their reader, each with its seconds."""

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
        size = sum(len(encoded) for encoded, _ in self._waiting)
        seconds = sum(seconds for _, seconds in self._waiting)
        return size < self._limits.buffered_bytes and seconds < self._limits.ahead_seconds

    def seconds_behind(self) -> float:
        return self._now() - self._waits_since if self._waiting else 0.0

    def put(self, encoded: bytes, seconds: float) -> None:
        if not encoded:
            return
        if not self._waiting:
            self._waits_since = self._now()
        self._waiting.append((encoded, seconds))
        self._changed.set()

    def end(self) -> None:
        self._is_ended = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """Raise the error in the reader, after the pieces that were spoken before it."""
        if isinstance(error, SlowReaderError):
            self._waiting.clear()
        self._error = error
        self._changed.set()

    async def wait_for_first(self) -> None:
        """Wait for the first piece, or the end of a speech without any; raise its error."""
        while not self._waiting and not self._is_ended:
            if self._error is not None:
                raise self._error
            await self._change()

    async def wait_for_room(self) -> None:
        while not self.has_room:
            await self._change()

    async def read(self) -> AsyncGenerator[bytes]:
        """Read to the end; raise SlowReaderError if another client got the stream."""
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
    def __init__(self, limits: SpeechLimits) -> None:
        self._limits = limits
        self._seconds = limits.seconds
        self._bytes = round(limits.seconds * BYTES_PER_SECOND)

    def spend(self, piece: Samples, sample_rate: int) -> None:
        self._seconds -= len(piece) / sample_rate
        self._bytes -= 2 * piece.size
        if self._seconds < 0 or self._bytes < 0:
            raise too_long(self._limits.seconds)


def too_long(seconds: float) -> TextError:
    return TextError(
        TextErrorCode.TEXT_TOO_LONG,
        f"The speech would take more than the {seconds:g} seconds that are spoken at once, or more"
        " bytes than that at 48 kHz in stereo. Send it in parts.",
    )


async def _in_thread(act: Callable[[], _Result]) -> _Result:
    """Run something in a thread, to its end even if it is cancelled, however often.

    Nothing stops a thread. If a cancelled request gave its place back at once, more threads would
    speak than there are places, and clients that only begin and leave could fill them all.
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


def _encode(speech: Speech, budget: _Budget | None = None) -> Iterator[tuple[bytes, float]]:
    """Speak and encode; each piece with its seconds. Encoding counts as a part of speaking."""
    pieces, encoder = speech.begin(), speech.open_encoder()
    for piece in pieces:
        if budget is not None:
            budget.spend(piece, speech.sample_rate)
        yield encoder.encode(piece), len(piece) / speech.sample_rate
    yield encoder.finish(), 0.0
