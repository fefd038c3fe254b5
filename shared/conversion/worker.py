"""What happens to a conversion message: admission, lease, conversion, commit.

Every error ends in one of three ways:

- The voice is failed, and the message acknowledged. So ends a voice that cannot be converted, and
  also one that a mistake of this program stops: another attempt would meet the same mistake.
- The voice is handed back, and the message delivered again: a service did not answer, the machine
  lacked something, or the instance stops.
- Another attempt owns the voice. This one commits nothing, deletes what it stored, and has the
  message delivered again: both attempts may come from the same message, and an acknowledgement
  would end it for both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from shared.conversion.leases import take_lease
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
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from shared.container.admission import Admission, PassOn, Turn
    from shared.conversion.characters import CharacterLender, LoadedCharacter
    from shared.conversion.leases import Lease
    from shared.conversion.stages import Conversion, Outcome
    from shared.ports import Traces, TraceStep
    from shared.voices.messages import PushMessage
    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)

IN_A_THREAD: Final = frozenset({"converting", "speaking", "encoding"})
"""The stages whose work is in a thread of this process, which nothing can stop.

Reading and storing wait for Cloud Storage, whose calls end by themselves, and decoding is in a
process of its own, which is killed.
"""

AFTER_STORING: Final = frozenset({ErrorCode.DEADLINE_EXCEEDED, ErrorCode.INTERNAL})
"""How a voice can fail whose result was stored already, or is just being stored."""

MOST_ATTEMPTS_AT_A_LIMIT: Final = 2
"""From this attempt on, a recording whose decoding hits a limit of the machine is not tried again.

Each attempt takes all that a recording may take, so it must not go round the queue.
"""

NOT_OURS: Final = (PassingError, OSError, MemoryError, ObjectMissingError, ObjectExistsError)
"""Errors of services and of the machine; any other error is a mistake of this program.

TimeoutError and the errors of connections are kinds of OSError. Objects appear and disappear when a
voice is erased or taken over meanwhile.
"""

_NOTICEABLE_SECONDS: Final = 1.0
"""A character that took longer to load has shortened the time for the conversion itself."""


class CharacterLateError(PassingError):
    """The character took so long to load that the voice could not be converted in time."""


Run: TypeAlias = (
    "Callable[[Voice, LoadedCharacter, Callable[[str], None], PassOn], Awaitable[Outcome]]"
)
"""Converts a leased voice and stores the result; calls its third argument with every stage, and the
last one between two pieces of a text, so that others take turns with it."""


@dataclass(frozen=True, slots=True)
class ConversionJob:
    """How one voice is converted.

    Attributes:
        take: takes the lease; raises like `take_lease`.
        turn: waits until the conversion may run, and counts it while it does. This time does not
            count towards the deadline, nor does that for which it lets others run; it never does if
            the turn is None.
        uploaded_at: when the recording was uploaded, in RFC 3339, for the log.
        client: whose places it takes; None where they are not shared out.
    """

    voice_id: str
    take: Callable[[], Awaitable[Lease]]
    turn: Callable[[], AbstractAsyncContextManager[Turn | None]]
    run: Run
    uploaded_at: str | None = None
    ended: Callable[[Voice], None] = lambda _voice: None
    client: str | None = None


class Worker:
    """Converts voices, and handles the messages that ask for it."""

    def __init__(
        self,
        voices: VoiceStore,
        characters: CharacterLender,
        conversion: Conversion,
        admission: Admission,
        deadline_seconds: float,
        *,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._traces = traces
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
        """Whether a conversion hangs in a thread, so that the process must be replaced.

        A voice whose character came late is handed back before its conversion is over. The thread
        goes on, and hangs if it takes longer than any conversion may.
        """
        longest = self._conversion.threads.longest_seconds()
        return self._is_stuck or longest > self._deadline_seconds

    @property
    def worked_seconds(self) -> float:
        """How long conversions have run, all of them together."""
        return self._admission.worked_seconds

    async def handle(self, message: PushMessage) -> None:
        """Handle one message; the same may come several times, also at the same time.

        Raises:
            MalformedMessageError: it is no conversion message.
            OverloadedError: this instance has as much work as it may have.
            AbandonedError: this instance stops or is stuck; no worker owns the voice now.
            LeaseLostError: another attempt owns the voice, or it was deleted.
            Exception: any other error after which Pub/Sub must deliver the message again.
        """
        wish = parse_conversion_message(message)
        job = ConversionJob(
            voice_id=wish.voice_id,
            take=partial(take_lease, self._voices, wish.voice_id, wish.upload),
            turn=self._admission.running,
            run=self._conversion.run,
            uploaded_at=message.attributes.get("uploaded_at"),
            client=wish.client,
        )
        self._traces.add(wish.voice_id, "delivery of the message", message.published_at)
        await self.carry_out(job)

    async def carry_out(self, job: ConversionJob) -> Voice | None:
        """Lease a voice, convert it and commit the outcome.

        Returns:
            The voice in its final state, or None if it was deleted.

        Raises:
            Exception: as `handle` says, without MalformedMessageError.
        """
        if self._is_draining or self.is_stuck:
            # A stuck process is killed and could not hand the voice back.
            raise AbandonedError("this instance stops")
        with (
            about_voice(job.voice_id),
            self._traces.step(job.voice_id, "attempt") as attempt,
            self._admission.admit(job.client),
        ):
            # A task of its own, so that draining can cancel the work and still answer.
            work = asyncio.create_task(self._convert(job, attempt))
            self._under_way.add(work)
            work.add_done_callback(self._under_way.discard)
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                work.cancel()
                await asyncio.wait({work})
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

    async def _convert(self, job: ConversionJob, attempt: TraceStep) -> Voice | None:
        try:
            with self._traces.step(job.voice_id, "lease"):
                lease = await job.take()
        except ForbiddenTransitionError as reason:
            _log_duplicate(reason)
            return await self._end(job, reason.voice)
        except AttemptsExhaustedError as reason:
            return await self._give_up(job, reason)
        except UnknownVoiceError as reason:
            _log_duplicate(reason)
            # It was erased, perhaps while it was owned by a worker that died before cleaning up.
            await self._conversion.discard_all(job.voice_id)
            return None
        _log_start(lease, cold=not self.has_converted)
        attempt.facts |= {"attempt": lease.attempt, "character": lease.voice.character}
        try:
            async with lease.kept():
                end = await self._work(lease, job)
        except LeaseLostError as reason:
            extra: dict[str, Any] = {"event": "lease_lost", "attempt": lease.attempt}
            _LOG.warning("nothing committed: %s", reason, extra=extra)
            await self._discard_uncommitted(lease.voice)
            raise
        except (asyncio.CancelledError, Exception) as error:
            if isinstance(error, ResourceLimitError):
                self._admission.failed(job.client)
            await lease.release(counts=_may_be_the_voices_own(error))
            raise
        if isinstance(end, VoiceError):
            attempt.error = end.code.value
            if end.code in SUSPICIOUS:
                self._admission.failed(job.client)
        self.has_converted = True
        _log_end(lease, end, job.uploaded_at)
        return await self._end(job, lease.voice)

    async def _work(self, lease: Lease, job: ConversionJob) -> Outcome | VoiceError:
        """Convert the voice and commit the outcome: a result, or the error of the voice."""
        try:
            return await self._try(lease, job)
        except NOT_OURS:
            raise
        except Exception:  # noqa: BLE001 - the visitor need not wait for the same mistake again
            # An alert watches these entries.
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            message = "Something went wrong on our side; please try again later."
            mistake = VoiceError(ErrorCode.INTERNAL, message)
            await lease.fail(mistake)
            return mistake

    async def _try(self, lease: Lease, job: ConversionJob) -> Outcome | VoiceError:
        begin = _now()
        async with AsyncExitStack() as held:
            try:
                # A voice that waits for its character keeps no other voice from being converted.
                character = await self._borrow(lease.voice.character, held)
            except VoiceError as error:
                await lease.fail(error)
                return error
            left = self._deadline_seconds - (_now() - begin)
            turn = await held.enter_async_context(job.turn())
            run = partial(job.run, lease.voice, character, lease.enter_stage)
            return await self._work_within(left, run, turn, lease)

    async def _borrow(self, character_id: str, held: AsyncExitStack) -> LoadedCharacter:
        """Borrow a character until the stack is left."""
        try:
            async with asyncio.timeout(self._deadline_seconds) as deadline:
                return await held.enter_async_context(self._characters.using(character_id))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise CharacterLateError(f"{character_id} is not loaded yet") from error

    async def _work_within(
        self,
        seconds: float,
        run: Callable[[PassOn], Awaitable[Outcome]],
        turn: Turn | None,
        lease: Lease,
    ) -> Outcome | VoiceError:
        """Do the work in at most so many seconds in which others do not run."""

        async def pass_on() -> None:
            if turn is not None:
                left = (deadline.when() or 0.0) - _now()
                deadline.reschedule(None)
                await turn.pass_on()
                deadline.reschedule(_now() + left)

        try:
            async with asyncio.timeout(seconds) as deadline:
                outcome = await run(pass_on)
        except VoiceError as error:
            await lease.fail(error)
            return error
        except ResourceLimitError:
            if lease.voice.counted_attempts < MOST_ATTEMPTS_AT_A_LIMIT:
                raise
            return await self._fail_at_a_limit(lease)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            if seconds < self._deadline_seconds - _NOTICEABLE_SECONDS:
                # At the next delivery the character is loaded, and the conversion has all the time.
                raise CharacterLateError(f"{lease.voice.character} was loaded late") from error
            return await self._fail_late(lease)
        self._trace_stages(lease.voice.voice_id, outcome)
        with self._traces.step(lease.voice.voice_id, "done"):
            await lease.finish(outcome.result, outcome.seconds, outcome.timings)
        return outcome

    def _trace_stages(self, voice_id: str, outcome: Outcome) -> None:
        # The stopwatch's clock has a zero of its own.
        zero = time.time() - time.perf_counter()
        for stage, begin, seconds in outcome.laps:
            self._traces.add(voice_id, stage, zero + begin, zero + begin + seconds)

    async def _give_up(self, job: ConversionJob, reason: AttemptsExhaustedError) -> Voice:
        """End a voice whose attempts have all failed, most likely because of its recording."""
        snapshot = await change(self._voices, job.voice_id, give_up)
        extra = _failure_of(snapshot.voice, ErrorCode.ATTEMPTS_EXHAUSTED)
        _LOG.error("given up: %s", reason, extra=extra)
        return await self._end(job, snapshot.voice)

    async def _end(self, job: ConversionJob, voice: Voice) -> Voice:
        """Tell that a voice is final, then tidy up; who waits for the voice does not wait for that.

        If tidying fails, the message, or the event of the upload, comes again to repeat only this.
        """
        job.ended(voice)
        with self._traces.step(job.voice_id, "tidy"):
            await self._tidy(voice)
        return voice

    async def _discard_uncommitted(self, voice: Voice) -> None:
        """Delete what an attempt has stored, unless it is the result of the voice.

        A commit whose answer was lost looks like a lost lease.
        """
        try:
            current = (await self._voices.read(voice.voice_id)).voice
        except UnknownVoiceError:
            current = voice
        if current.result is None or current.attempt != voice.attempt:
            await self._conversion.discard(voice)

    async def _tidy(self, voice: Voice) -> None:
        """Delete the recording of a final voice, and what its attempts stored beside its result.

        This is repeated when its message is delivered again, because a worker can die before it has
        done this, and Cloud Storage can be unavailable.
        """
        may_be_stored = voice.error is not None and voice.error.code in AFTER_STORING
        if voice.attempt > 1 or may_be_stored:
            await self._conversion.discard_others(voice)
        await self._conversion.discard_recording(voice)

    async def _fail_at_a_limit(self, lease: Lease) -> VoiceError:
        message = "The recording takes more time or memory to decode than it may."
        error = VoiceError(ErrorCode.TOO_COMPLEX, message)
        await lease.fail(error)
        return error

    async def _fail_late(self, lease: Lease) -> VoiceError:
        if lease.stage in IN_A_THREAD:
            # A thread cannot be stopped, only its process.
            self._is_stuck = True
        message = f"The conversion took more than {self._deadline_seconds:g} seconds."
        error = VoiceError(ErrorCode.DEADLINE_EXCEEDED, message)
        await lease.fail(error)
        return error


def _may_be_the_voices_own(error: BaseException) -> bool:
    """Return whether an attempt that ended with `error` counts as a failed one.

    It does not if the instance stops, or if a service that it needs did not answer.
    """
    if isinstance(error, ResourceLimitError):
        return True
    return not isinstance(error, asyncio.CancelledError | PassingError)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _log_duplicate(reason: Exception) -> None:
    extra = {"event": "duplicate", "reason": str(reason)}
    _LOG.info("message ignored: %s", reason, extra=extra)


def _log_start(lease: Lease, *, cold: bool) -> None:
    event = "conversion_started" if lease.attempt == 1 else "lease_taken_over"
    extra: dict[str, Any] = {
        "event": event,
        "attempt": lease.attempt,
        "character": lease.voice.character,
        "cold": cold,
    }
    _LOG.info("attempt %d", lease.attempt, extra=extra)


def _log_end(lease: Lease, end: Outcome | VoiceError, uploaded_at: str | None) -> None:
    if isinstance(end, VoiceError):
        extra = _failure_of(lease.voice, end.code)
        _LOG.warning("conversion failed: %s", end, extra=extra)
    else:
        _log_success(lease, end, uploaded_at)


def _failure_of(voice: Voice, code: ErrorCode) -> dict[str, Any]:
    """Return the fields of the log entry about a failed voice; the dashboard reads them."""
    return {
        "event": "conversion_failed",
        "attempt": voice.attempt,
        "character": voice.character,
        "code": code.value,
    }


def _log_success(lease: Lease, outcome: Outcome, uploaded_at: str | None) -> None:
    extra: dict[str, Any] = {
        "event": "conversion_done",
        "attempt": lease.attempt,
        "character": lease.voice.character,
        "seconds": outcome.seconds,
        "kind": "text" if lease.voice.is_text else "recording",
        "stages": dict(outcome.timings),
    }
    if (wait_ms := _milliseconds_since(uploaded_at)) is not None:
        extra["wait_ms"] = wait_ms
    _LOG.info("converted", extra=extra)


def _milliseconds_since(moment: str | None) -> float | None:
    if moment is None:
        return None
    try:
        waited = datetime.now(UTC) - datetime.fromisoformat(moment)
    except (TypeError, ValueError):
        # A time without its zone cannot be compared.
        return None
    return round(waited / timedelta(milliseconds=1), 1)
