"""The worker: admission, lease, conversion, commit, and tidying up after an attempt at a voice.

An attempt ends in one of three ways:

- The voice is failed, and its message acknowledged. This happens to a voice that cannot be
  converted, and to one that meets a mistake of this program: another attempt would meet it again.
- The voice is handed back, and its message delivered again: a service did not answer, the machine
  lacked something, or the instance stops.
- Another attempt owns the voice. This one commits nothing, deletes the result that it stored, and
  has its message delivered again: both attempts may come from the same message, and an
  acknowledgement would end it for both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.characters.own.store import require_usable
from shared.conversion.leases import Lease, take_lease
from shared.ports import NO_TRACES
from shared.runtime.logs import about_voice
from shared.runtime.push import AbandonedError
from shared.speech.decoding.process_output import ResourceLimitError
from shared.voices.messages import parse_conversion_message
from shared.voices.objects import ObjectExistsError, ObjectMissingError
from shared.voices.store import UnknownVoiceError, change
from shared.voices.voice import (
    SUSPICIOUS,
    AttemptsExhaustedError,
    ErrorCode,
    ForbiddenTransitionError,
    LeaseLostError,
    PassingError,
    VoiceError,
    give_up,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from shared.characters.own.store import OwnCharacterStore
    from shared.container.admission import Admission, PassOn, Turn
    from shared.conversion.characters import CharacterLender, LoadedCharacter
    from shared.conversion.stages import Conversion, Outcome
    from shared.ports import Traces, TraceStep
    from shared.voices.messages import PushMessage
    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)

# The stages in a thread of this process, which nothing can stop. Calls of Cloud Storage end by
# themselves, and decoding has a process of its own, which is killed.
IN_A_THREAD: Final = frozenset({"converting", "speaking", "encoding"})

# The errors of voices whose result may be in storage already.
AFTER_STORING: Final = frozenset({ErrorCode.DEADLINE_EXCEEDED, ErrorCode.INTERNAL})

# The last attempt at a recording whose decoding hits a limit of the machine: each takes as much as
# a recording may take, so it must not go round the queue.
MOST_ATTEMPTS_AT_A_LIMIT: Final = 2

# Errors of services and of the machine; any other error is a mistake of this program. TimeoutError
# and the errors of connections are kinds of OSError. Objects appear and disappear when a voice is
# erased or taken over meanwhile.
NOT_OURS: Final = (PassingError, OSError, MemoryError, ObjectMissingError, ObjectExistsError)

# A character that took longer to load has shortened the time of the conversion itself.
_NOTICEABLE_SECONDS: Final = 1.0


class CharacterLateError(PassingError):
    """The character took so long to load that the voice could not be converted in time."""


class Attempt(ABC):
    """One attempt at a voice, in the steps that the worker calls one after the other.

    Attributes:
        client: whose places it takes; None where they are not shared out.
        uploaded_at: when the recording was uploaded, in RFC 3339, for the log.
    """

    def __init__(
        self, voice_id: str, *, client: str | None = None, uploaded_at: str | None = None
    ) -> None:
        self.voice_id = voice_id
        self.client = client
        self.uploaded_at = uploaded_at

    @abstractmethod
    async def take_lease(self) -> Lease:
        """Lease the voice; raises like `shared.conversion.leases.take_lease`."""

    @abstractmethod
    def turn(self) -> AbstractAsyncContextManager[Turn | None]:
        """Wait until the conversion may run, and count it while it does.

        The wait does not count towards the deadline, nor does the time of others in between.
        """

    @abstractmethod
    async def convert(
        self,
        voice: Voice,
        character: LoadedCharacter,
        enter_stage: Callable[[str], None],
        pass_on: PassOn,
    ) -> Outcome:
        """Convert the leased voice and store the result.

        Args:
            enter_stage: is called with the name of every stage.
            pass_on: is called between two pieces of a text, so that others take turns with it.
        """

    def announce_end(self, voice: Voice) -> None:  # noqa: B027 - most clients wait elsewhere
        """Tell a client that waits at this instance that the voice is final."""


class QueuedAttempt(Attempt):
    """An attempt that a conversion message asks for; raises MalformedMessageError for any other."""

    def __init__(
        self,
        message: PushMessage,
        voices: VoiceStore,
        conversion: Conversion,
        admission: Admission,
    ) -> None:
        request = parse_conversion_message(message)
        super().__init__(
            request.voice_id,
            client=request.client,
            uploaded_at=message.attributes.get("uploaded_at"),
        )
        self._upload = request.upload
        self._voices = voices
        self._conversion = conversion
        self._admission = admission

    async def take_lease(self) -> Lease:
        return await take_lease(self._voices, self.voice_id, self._upload)

    def turn(self) -> Turn:
        return self._admission.turn(self.client)

    async def convert(
        self,
        voice: Voice,
        character: LoadedCharacter,
        enter_stage: Callable[[str], None],
        pass_on: PassOn,
    ) -> Outcome:
        return await self._conversion.run(voice, character, enter_stage, pass_on)


class Worker:
    def __init__(
        self,
        voices: VoiceStore,
        characters: CharacterLender,
        conversion: Conversion,
        admission: Admission,
        deadline_seconds: float,
        *,
        own_characters: OwnCharacterStore | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._traces = traces
        self._own_characters = own_characters
        self._voices = voices
        self._characters = characters
        self._conversion = conversion
        self._admission = admission
        self._deadline_seconds = deadline_seconds
        self._under_way: set[asyncio.Task[Voice | None]] = set()
        self._is_draining = False
        self.has_converted = False
        self._is_stuck = False

    @property
    def is_stuck(self) -> bool:
        """True if a conversion hangs in a thread, so that the process must be replaced.

        A voice whose character came late is handed back before its conversion is over. The thread
        goes on, and hangs if it takes longer than any conversion may.
        """
        longest = self._conversion.threads.longest_seconds()
        return self._is_stuck or longest > self._deadline_seconds

    @property
    def worked_seconds(self) -> float:
        return self._admission.worked_seconds

    async def handle(self, message: PushMessage) -> None:
        """Handle one message; the same may come several times, also at the same time.

        Raises:
            MalformedMessageError: it is no conversion message.
            OverloadedError: this instance has as much work as it may have, or gave this message no
                place in time.
            AbandonedError: this instance stops or is stuck; no worker owns the voice now.
            LeaseLostError: another attempt owns the voice, or it was deleted.
            Exception: any other error after which Pub/Sub must deliver the message again.
        """
        attempt = QueuedAttempt(message, self._voices, self._conversion, self._admission)
        self._traces.add(attempt.voice_id, "delivery of the message", message.published_at)
        await self.carry_out(attempt)

    async def carry_out(self, attempt: Attempt) -> Voice | None:
        """Lease a voice, convert it and commit the outcome.

        Raises like `handle`, without MalformedMessageError.

        Returns:
            The voice in its final state, or None if it was deleted.
        """
        if self._is_draining or self.is_stuck:
            # A stuck process is killed and could not hand the voice back.
            raise AbandonedError("this instance stops")
        with (
            about_voice(attempt.voice_id),
            self._traces.step(attempt.voice_id, "attempt") as trace,
            self._admission.admit(),
        ):
            # A task of its own, so that draining can cancel the work and still answer.
            work = asyncio.create_task(self._lease_and_convert(attempt, trace))
            self._under_way.add(work)
            work.add_done_callback(self._under_way.discard)
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                work.cancel()
                # Nobody hears of its error.
                await asyncio.gather(work, return_exceptions=True)
                raise
            if work.cancelled():
                raise AbandonedError("the voice was handed back")
            return work.result()

    async def drain(self) -> None:
        """Hand back every voice under way and accept no more, because the instance stops."""
        self._is_draining = True
        under_way = tuple(self._under_way)
        for work in under_way:
            work.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _lease_and_convert(self, attempt: Attempt, trace: TraceStep) -> Voice | None:
        try:
            with self._traces.step(attempt.voice_id, "lease"):
                lease = await self._lease_or_give_up(attempt)
        except (ForbiddenTransitionError, UnknownVoiceError) as reason:
            extra: dict[str, Any] = {"event": "duplicate", "reason": str(reason)}
            _LOG.info("message ignored: %s", reason, extra=extra)
            if isinstance(reason, ForbiddenTransitionError):
                return await self._end(attempt, reason.voice)
            # It was erased, perhaps while it was owned by a worker that died before cleaning up.
            await self._conversion.discard_all(attempt.voice_id)
            return None
        if not isinstance(lease, Lease):
            return await self._end(attempt, lease)
        _log_start(lease, cold=not self.has_converted)
        trace.facts |= {"attempt": lease.attempt, "character": lease.voice.character}
        try:
            async with lease.hold():
                end = await self._convert(lease, attempt)
        except LeaseLostError as reason:
            extra = {"event": "lease_lost", "attempt": lease.attempt}
            _LOG.warning("nothing committed: %s", reason, extra=extra)
            await self._discard_uncommitted(lease.voice)
            raise
        except (asyncio.CancelledError, Exception) as error:
            is_limit = isinstance(error, ResourceLimitError)
            if is_limit:
                self._admission.penalize(attempt.client)
            # An attempt counts unless the instance stops or a service did not answer.
            passes = isinstance(error, asyncio.CancelledError | PassingError)
            if not await lease.release(counts=is_limit or not passes):
                # A voice that was erased has no further attempt that would delete this result.
                with suppress(PassingError):
                    await self._discard_uncommitted(lease.voice)
            raise
        if isinstance(end, VoiceError):
            trace.error = end.code.value
            if end.code in SUSPICIOUS:
                self._admission.penalize(attempt.client)
        self.has_converted = True
        _log_end(lease, end, attempt.uploaded_at)
        return await self._end(attempt, lease.voice)

    async def _lease_or_give_up(self, attempt: Attempt) -> Lease | Voice:
        """Lease a voice, or return it failed if all its attempts have; raises as `take_lease`."""
        try:
            return await attempt.take_lease()
        except AttemptsExhaustedError as reason:
            # Most likely because of the recording.
            voice = (await change(self._voices, attempt.voice_id, give_up)).voice
            extra = _failure_of(voice, ErrorCode.ATTEMPTS_EXHAUSTED)
            _LOG.error("given up: %s", reason, extra=extra)
            return voice

    async def _convert(self, lease: Lease, attempt: Attempt) -> Outcome | VoiceError:
        try:
            async with AsyncExitStack() as held:
                return await self._convert_in_turn(lease, attempt, held)
        except VoiceError as error:
            failure = error
        except NOT_OURS:
            raise
        except Exception:  # noqa: BLE001 - the visitor need not wait for the same mistake again
            # An alert watches these entries.
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            message = "Something went wrong on our side; please try again later."
            failure = VoiceError(ErrorCode.INTERNAL, message)
        await lease.fail(failure)
        return failure

    async def _convert_in_turn(
        self, lease: Lease, attempt: Attempt, held: AsyncExitStack
    ) -> Outcome:
        voice, now = lease.voice, asyncio.get_running_loop().time
        await require_usable(voice, self._own_characters)
        begin = now()
        # A voice that waits for its character keeps no other voice from being converted.
        character = await self._borrow(voice.character, held)
        seconds = self._deadline_seconds - (now() - begin)
        turn = await held.enter_async_context(attempt.turn())

        async def pass_on() -> None:
            if turn is not None:
                left = (deadline.when() or 0.0) - now()
                deadline.reschedule(None)
                await turn.pass_on()
                deadline.reschedule(now() + left)

        try:
            async with asyncio.timeout(seconds) as deadline:
                outcome = await attempt.convert(voice, character, lease.enter_stage, pass_on)
        except ResourceLimitError as error:
            if voice.counted_attempts < MOST_ATTEMPTS_AT_A_LIMIT:
                raise
            message = "The recording takes more time or memory to decode than it may."
            raise VoiceError(ErrorCode.TOO_COMPLEX, message) from error
        except TimeoutError as error:
            if not deadline.expired():
                raise
            if seconds < self._deadline_seconds - _NOTICEABLE_SECONDS:
                # At the next delivery the character is loaded, and the conversion has all the time.
                raise CharacterLateError(f"{voice.character} was loaded late") from error
            if lease.stage in IN_A_THREAD:
                # A thread cannot be stopped, only its process.
                self._is_stuck = True
            message = f"The conversion took more than {self._deadline_seconds:g} seconds."
            raise VoiceError(ErrorCode.DEADLINE_EXCEEDED, message) from error
        # The stopwatch's clock has a zero of its own.
        zero = time.time() - time.perf_counter()
        for stage, start, length in outcome.laps:
            self._traces.add(voice.voice_id, stage, zero + start, zero + start + length)
        with self._traces.step(voice.voice_id, "done"):
            await lease.finish(
                outcome.result, outcome.seconds, outcome.timings, outcome.missing_seconds
            )
        return outcome

    async def _borrow(self, character_id: str, held: AsyncExitStack) -> LoadedCharacter:
        try:
            async with asyncio.timeout(self._deadline_seconds) as deadline:
                return await held.enter_async_context(self._characters.lend(character_id))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise CharacterLateError(f"{character_id} is not loaded yet") from error

    async def _end(self, attempt: Attempt, voice: Voice) -> Voice:
        """Announce that a voice is final, then tidy up, for which nobody has to wait.

        If that fails, the message, or the event of the upload, comes again to repeat only this.
        """
        attempt.announce_end(voice)
        with self._traces.step(attempt.voice_id, "tidy"):
            may_be_stored = voice.error is not None and voice.error.code in AFTER_STORING
            if voice.attempt > 1 or may_be_stored:
                await self._conversion.discard_others(voice)
            await self._conversion.discard_recording(voice)
        return voice

    async def _discard_uncommitted(self, voice: Voice) -> None:
        """Delete an attempt's result, unless its commit only looked like a lost lease."""
        try:
            current = (await self._voices.read(voice.voice_id)).voice
        except UnknownVoiceError:
            current = voice
        if current.result is None or current.attempt != voice.attempt:
            await self._conversion.discard(voice)


def _log_start(lease: Lease, *, cold: bool) -> None:
    extra: dict[str, Any] = {
        "event": "conversion_started" if lease.attempt == 1 else "lease_taken_over",
        "attempt": lease.attempt,
        "character": lease.voice.character,
        "cold": cold,
    }
    _LOG.info("attempt %d", lease.attempt, extra=extra)


def _failure_of(voice: Voice, code: ErrorCode) -> dict[str, Any]:
    """Return the fields of the log entry about a failed voice; the dashboard reads them."""
    return {
        "event": "conversion_failed",
        "attempt": voice.attempt,
        "character": voice.character,
        "code": code.value,
    }


def _log_end(lease: Lease, end: Outcome | VoiceError, uploaded_at: str | None) -> None:
    if isinstance(end, VoiceError):
        _LOG.warning("conversion failed: %s", end, extra=_failure_of(lease.voice, end.code))
        return
    extra: dict[str, Any] = {
        "event": "conversion_done",
        "attempt": lease.attempt,
        "character": lease.voice.character,
        "seconds": end.seconds,
        "kind": "text" if lease.voice.is_text else "recording",
        "stages": dict(end.timings),
    }
    if end.missing_seconds is not None:
        extra["missing_seconds"] = end.missing_seconds
    # There may be no time of the upload, or one without its zone, which cannot be compared.
    with suppress(TypeError, ValueError):
        waited = datetime.now(UTC) - datetime.fromisoformat(uploaded_at or "")
        extra["wait_ms"] = round(waited / timedelta(milliseconds=1), 1)
    _LOG.info("converted", extra=extra)
