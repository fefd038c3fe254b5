"""What a decoded recording is, and which recordings are accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    import numpy.typing as npt

    from shared.media import Container

MIN_SAMPLE_RATE: Final = 8_000
MAX_SAMPLE_RATE: Final = 192_000
MAX_CHANNELS: Final = 8

SHORT_TOLERANCE: Final = 0.9
"""Recorders deliver a little less than was asked for: this part of the minimum is enough."""

LONG_TOLERANCE_SECONDS: Final = 0.5
"""A recorder that is stopped after the maximum delivers a little more."""

SILENCE_DBFS: Final = -60.0
"""Loudness, in dB of full scale, below which a recording holds no voice.

A muted microphone gives -90 dB and less, the noise of a quiet one about -70 dB, and speech that
is far too quiet still -50 dB. Converted silence has to be below -60 dB, too.
"""

MAX_PEAK: Final = 8.0
"""Float samples over full scale are kept up to here (+18 dB); more than that is another scale."""

# Slow processors decode a hundred and fast ones a thousand.
_SECONDS_DECODED_PER_SECOND: Final = 20

_CANCELLATION: Final = 0.1
"""Two channels whose mean has less than this part of their level are in opposite phase."""

_FRAME_SECONDS: Final = 0.02
_LOUD_PERCENTILE: Final = 95


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What decoding one recording may take.

    Attributes:
        min_seconds: the shortest recording; a tenth less is accepted.
        max_seconds: the longest recording; half a second more is accepted.
        max_bytes: the largest encoded recording.
        cpu_seconds: processor time of the decoding process, beside what long recordings need.
        wall_seconds: time the decoding process may take altogether, likewise.
        memory_bytes: address space of the decoding process beyond what it starts with.
    """

    min_seconds: float = 1.0
    max_seconds: float = 10.0
    max_bytes: int = 16 * 1024 * 1024
    cpu_seconds: int = 4
    wall_seconds: float = 15.0
    memory_bytes: int = 256 * 1024 * 1024

    @property
    def cpu_allowance(self) -> int:
        """Processor time in whole seconds; one more for every twenty of the longest recording."""
        return math.ceil(self.cpu_seconds + self.max_seconds / _SECONDS_DECODED_PER_SECOND)

    @property
    def wall_allowance(self) -> float:
        """Time in seconds; one more for every twenty of the longest recording."""
        return self.wall_seconds + self.max_seconds / _SECONDS_DECODED_PER_SECOND

    @property
    def longest(self) -> float:
        """The length in seconds beyond which decoding stops."""
        return self.max_seconds + LONG_TOLERANCE_SECONDS

    @property
    def shortest(self) -> float:
        """The length in seconds below which a recording is refused."""
        return self.min_seconds * SHORT_TOLERANCE


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A decoded recording.

    Attributes:
        samples: float32 [N], one channel, full scale is 1.0.
        sample_rate: in Hz, the recording's own.
        container: what the recording came in.
        codec: name of the codec it was encoded with.
        channels: how many channels were mixed into the one.
        damaged: some of the recording could not be decoded and is missing in `samples`.
        cpu_seconds: processor time that decoding took.
        confined: the decoding process ran behind a system call filter, not only behind limits.
    """

    samples: npt.NDArray[np.float32]
    sample_rate: int
    container: Container
    codec: str
    channels: int
    damaged: bool
    cpu_seconds: float
    confined: bool

    @property
    def seconds(self) -> float:
        """The recording's length, counted in decoded samples."""
        return len(self.samples) / self.sample_rate


def downmix(frames: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Mix one or two channels, float32 [N, 1 or 2], into one, float32 [N].

    Two channels become their mean. Where that cancels out, as with a microphone that is wired in
    opposite phase, the louder channel is taken instead.
    """
    if frames.shape[1] == 1:
        return np.ascontiguousarray(frames[:, 0])
    mean = np.ascontiguousarray(frames.mean(axis=1, dtype=np.float32))
    channel_levels = [_rms(frames[:, channel]) for channel in range(2)]
    loudest = int(np.argmax(channel_levels))
    if _rms(mean) < _CANCELLATION * channel_levels[loudest]:
        return np.ascontiguousarray(frames[:, loudest])
    return mean


def loudness_dbfs(samples: npt.NDArray[np.float32], sample_rate: int) -> float:
    """Loudness of the loud part of `samples`, float32 [N], in dB of full scale.

    The 95th percentile of the RMS of 20 ms frames, after removing a constant offset: one click
    does not make a recording loud, and long pauses do not make it silent.
    """
    frame = max(1, round(_FRAME_SECONDS * sample_rate))
    count = max(1, len(samples) // frame)
    frames = samples[: count * frame].reshape(count, -1)
    offset = float(samples.mean(dtype=np.float64))
    power = np.square(frames - np.float32(offset)).mean(axis=1, dtype=np.float64)
    loud = float(np.percentile(power, _LOUD_PERCENTILE))
    return 10 * float(np.log10(max(loud, 1e-20)))


def check(recording: Recording, limits: DecodeLimits) -> None:
    """Accept a recording, or say what is wrong with it.

    Raises:
        VoiceError: `too_short`, `too_long`, `corrupt` or `silent`.
    """
    if recording.seconds > limits.longest:
        raise too_long(limits)
    if recording.seconds < limits.shortest:
        raise _too_short(recording, limits)
    peak = float(np.abs(recording.samples).max(initial=0.0))
    if not np.isfinite(peak):
        raise VoiceError(ErrorCode.CORRUPT, "The recording has samples that are not numbers.")
    if peak > MAX_PEAK:
        raise VoiceError(
            ErrorCode.CORRUPT,
            f"The recording has samples up to {peak:.4g}, where full scale is 1; "
            "it is damaged or written with another scale.",
        )
    if loudness_dbfs(recording.samples, recording.sample_rate) < SILENCE_DBFS:
        raise VoiceError(
            ErrorCode.SILENT,
            "The recording is silent; check that the microphone is on and not muted.",
        )


def too_long(limits: DecodeLimits) -> VoiceError:
    """The error for a recording longer than `limits` allow."""
    return VoiceError(
        ErrorCode.TOO_LONG,
        f"The recording is longer than {limits.max_seconds:g} s; record less.",
    )


def _too_short(recording: Recording, limits: DecodeLimits) -> VoiceError:
    if recording.damaged:
        return VoiceError(
            ErrorCode.CORRUPT,
            f"The recording is damaged or cut off: only {recording.seconds:.2f} s of it can be "
            f"decoded, and {limits.min_seconds:g} s are needed; record it again.",
        )
    return VoiceError(
        ErrorCode.TOO_SHORT,
        f"The recording is {recording.seconds:.2f} s long; "
        f"at least {limits.min_seconds:g} s are needed.",
    )


def _rms(samples: npt.NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(samples).mean(dtype=np.float64))) if len(samples) else 0.0
