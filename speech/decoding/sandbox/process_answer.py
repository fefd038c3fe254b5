"""The answer of a decoding process, and what it means for the recording."""

from __future__ import annotations

import asyncio
import math
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from shared.errors import PassingError
from shared.voices.voice import ErrorCode, VoiceError
from speech.decoding.recordings.recording import (
    DecodeLimits,
    Recording,
    as_float,
    check,
    downmix,
    too_long,
)
from speech.decoding.recordings.wire import (
    MAX_CHANNELS,
    MAX_SAMPLE_RATE,
    MIN_SAMPLE_RATE,
    SAMPLE_TYPES,
    Exit,
    Verdict,
    split_answer,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from shared.voices.media import Container

_DTYPES: Final = dict(
    zip(
        SAMPLE_TYPES,
        (np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64),
        strict=True,
    )
)

# The signals that end a program when its input makes it misbehave. Not every system has all.
_CRASH_SIGNALS: Final = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
_CRASHES: Final = frozenset(
    -signal.Signals[name] for name in _CRASH_SIGNALS if hasattr(signal, name)
)
_KILLED: Final = -9  # the numbers are the same on all systems that have these signals
OUT_OF_TIME: Final = -14
"""The status of a process that was ended because its time was over."""

# On Windows a crash ends a process with a status from here on (NTSTATUS values of severity error).
_FIRST_WINDOWS_CRASH: Final = 0xC0000000


# Up to this size, checking the answer takes less time than starting a thread for it.
_CHECKED_AT_ONCE_BYTES: Final = 4 << 20

_VERDICT: Final = TypeAdapter(Verdict)
_EXIT: Final = TypeAdapter(Exit)


class DecoderUnavailableError(PassingError):
    """The machine, not the recording, is the reason why decoding failed; trying again may help."""


class ResourceLimitError(DecoderUnavailableError):
    """The decoding process got too little time or was killed, perhaps for lack of memory.

    If that happens again at another time, the recording is the reason.
    """


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """What one decoding process returned.

    Attributes:
        body: interleaved samples.
        verdict: what it said, or None if it ended before it could say anything.
        exit: how it ended, or None if nobody could tell because the zygote ended, too.
    """

    body: memoryview
    verdict: Verdict | None
    exit: Exit | None

    @classmethod
    def read(cls, written: memoryview, exit_: Exit) -> ProcessAnswer:
        """Read what an ended process has written: samples, then its verdict."""
        body, text = split_answer(written)
        return cls(body, read_verdict(text), exit_)

    def was_killed(self, limits: DecodeLimits) -> bool:
        """Whether another program killed the process, so that the recording may be fine."""
        if self.exit is None:
            return True
        in_time = self.exit.cpu_seconds < limits.cpu_allowance
        return self.exit.status == _KILLED and in_time

    async def concluded(self, container: Container, limits: DecodeLimits) -> Recording:
        """Turn the answer into a recording, or into the error it means; see `conclude`."""
        if len(self.body) <= _CHECKED_AT_ONCE_BYTES:
            return self.conclude(container, limits)
        return await asyncio.to_thread(self.conclude, container, limits)

    def conclude(self, container: Container, limits: DecodeLimits) -> Recording:
        """Turn the answer into a recording, or into the error it means.

        A hostile recording may have taken over the process, so everything in the answer is checked.

        Raises:
            VoiceError: the recording is the reason.
            ResourceLimitError: the process ran out of time without using it.
        """
        if self.exit is None or self.exit.status or self.verdict is None or self.verdict.code:
            raise self.error(limits)
        with np.errstate(invalid="ignore", over="ignore"):
            recording = Recording(
                samples=mixed(self.body, self.verdict, self.verdict.samples),
                sample_rate=self.verdict.sample_rate,
                container=container,
                codec=self.verdict.codec,
                channels=self.verdict.channels,
                damaged=self.verdict.damaged,
                cpu_seconds=self.exit.cpu_seconds,
                confined=self.verdict.confined,
            )
            check(recording, limits)
        return recording

    def error(self, limits: DecodeLimits) -> Exception:
        """Return the error that an answer without a recording means."""
        if self.exit is None or self.exit.status != 0 or self.verdict is None:
            return self._failure()
        if self.verdict.code == ErrorCode.TOO_LONG:
            return too_long(limits)
        return VoiceError(_known(self.verdict.code), self.verdict.message)

    def _failure(self) -> Exception:
        """Return the error of a process that ended without a verdict."""
        status = None if self.exit is None else self.exit.status
        if status in _CRASHES or (status or 0) >= _FIRST_WINDOWS_CRASH:
            return VoiceError(
                ErrorCode.CORRUPT, "The recording is damaged so that it cannot be read."
            )
        if status == OUT_OF_TIME:
            return ResourceLimitError("the decoding process got too little processor time")
        return VoiceError(
            ErrorCode.TOO_COMPLEX,
            "The recording takes more time or memory to decode than it may.",
        )


def read_verdict(text: bytes) -> Verdict | None:
    """Read the verdict of a process that is not trusted; None if this is no verdict."""
    try:
        return _VERDICT.validate_json(text, strict=True)
    except ValidationError:
        return None


def read_exit(text: bytes) -> Exit | None:
    """Read how the zygote says that a process ended; None if this is not complete."""
    try:
        return _EXIT.validate_json(text, strict=True)
    except ValidationError:
        return None


def misbehaved() -> VoiceError:
    """Return the error of a process whose answer is impossible."""
    return VoiceError(ErrorCode.CORRUPT, "The recording made its decoder misbehave.")


def mixed(body: memoryview, verdict: Verdict, count: int | None = None) -> npt.NDArray[np.float32]:
    """Return the samples that a process sent as float32 [N], one channel.

    Args:
        body: interleaved samples.
        verdict: says what they are.
        count: how many there should be of each channel, if that is known.

    Raises:
        VoiceError: there are not so many, or the verdict is impossible.
    """
    sent = len(verdict.weights)
    dtype = np.dtype(_DTYPES.get(verdict.sample_type, np.float32))
    if (
        verdict.sample_type not in _DTYPES
        or not MIN_SAMPLE_RATE <= verdict.sample_rate <= MAX_SAMPLE_RATE
        or not 1 <= sent <= verdict.channels <= MAX_CHANNELS
        or not 0 < sum(verdict.weights) < math.inf
        or len(body) % (sent * dtype.itemsize)
        or count not in {None, len(body) // (sent * dtype.itemsize)}
    ):
        raise misbehaved()
    with np.errstate(invalid="ignore", over="ignore"):
        frames = as_float(np.frombuffer(body, dtype).reshape(-1, sent))
        return downmix(frames, verdict.weights)


def _known(code: str) -> ErrorCode:
    return ErrorCode(code) if code in set(ErrorCode) else ErrorCode.CORRUPT
