"""Decoded recordings, and the checks by which they are accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shared.speech.decoding.wire import MAX_SAMPLE_RATE
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from shared.voices.media import Container

# This part of the minimum is enough, because recorders deliver a little less than asked for.
SHORT_TOLERANCE: Final = 0.9
LONG_TOLERANCE_SECONDS: Final = 0.5  # because recorders stop a little late

# Below this loudness a recording holds no voice. A muted microphone is at -90 dB or less, the noise
# of a quiet one at about -70 dB, and even speech that is far too quiet at -50 dB. Converted silence
# has to be below -60 dB, too.
SILENCE_DBFS: Final = -60.0
MAX_PEAK: Final = 8.0  # the largest accepted float sample; larger ones mean another full scale

# Slow processors decode a hundred seconds per second, fast ones a thousand. Measured with 10 s in
# every format that is accepted: at most 0.17 s.
_SECONDS_DECODED_PER_SECOND: Final = 20

# Stereo at the highest rate in the usual precision; of larger recordings, fewer channels are mixed.
_ANSWER_BYTES_PER_SECOND: Final = MAX_SAMPLE_RATE * 2 * 4

# Two channels are in opposite phase if their mean has less than this part of their level.
_CANCELLATION: Final = 0.1

_FRAME_SECONDS: Final = 0.02
_LOUD_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """The limits of one recording; of a longer one, the beginning is decoded if it is allowed."""

    min_seconds: float = 1.0
    max_seconds: float = 10.0
    max_bytes: int = 16 * 1024 * 1024
    cpu_seconds: float = 0.5
    wall_seconds: float = 15.0
    memory_bytes: int = 32 * 1024 * 1024
    takes_beginning: bool = False

    @property
    def cpu_allowance(self) -> int:
        return math.ceil(self.cpu_seconds + self.max_seconds / _SECONDS_DECODED_PER_SECOND)

    @property
    def wall_allowance(self) -> float:
        return self.wall_seconds + self.max_seconds / _SECONDS_DECODED_PER_SECOND

    @property
    def memory_allowance(self) -> int:
        """Bytes beyond the start; measured with 10 s in every format: 4 MiB and the recording."""
        return self.memory_bytes + 2 * self.max_bytes

    @property
    def answer_bytes(self) -> int:
        return math.ceil(self.longest * _ANSWER_BYTES_PER_SECOND)

    @property
    def peak_bytes(self) -> int:
        """Memory of the decoding process, its answer, and the recording with the one who waits."""
        return self.memory_allowance + self.answer_bytes + self.max_bytes

    @property
    def longest(self) -> float:
        return self.max_seconds + LONG_TOLERANCE_SECONDS

    @property
    def shortest(self) -> float:
        return self.min_seconds * SHORT_TOLERANCE


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    samples: npt.NDArray[np.float32]  # [N], one channel, full scale is 1.0
    sample_rate: int  # in Hz, the recording's own
    container: Container
    codec: str
    channels: int
    damaged: bool  # a part could not be decoded and is missing in the samples
    cpu_seconds: float
    confined: bool
    missing_seconds: float = 0.0  # the length of that part, as far as the file tells

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.sample_rate


def as_float(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Convert integers to float32 with full scale 1.0; floats are not scaled."""
    if samples.dtype == np.uint8:
        return (samples.astype(np.float32) - np.float32(128)) / np.float32(128)
    if samples.dtype.kind == "i":
        scale = np.float32(2.0 ** (1 - 8 * samples.dtype.itemsize))
        return samples.astype(np.float32) * scale
    return samples.astype(np.float32, copy=False)


def downmix(
    frames: npt.NDArray[np.float32], weights: Sequence[float] | None = None
) -> npt.NDArray[np.float32]:
    """Mix channels, float32 [N, channels], into one, float32 [N].

    Two channels become their mean. If that cancels out, as with a microphone wired in opposite
    phase, the louder channel is returned instead. More channels are mixed by their weights.
    """
    if frames.shape[1] == 1:
        return np.ascontiguousarray(frames[:, 0])
    if frames.shape[1] > 2:  # noqa: PLR2004
        shares = np.asarray(weights or [1.0] * frames.shape[1], np.float32)
        mixed: npt.NDArray[np.float32] = frames @ (shares / shares.sum())
        return mixed
    mean = np.ascontiguousarray(frames.mean(axis=1, dtype=np.float32))
    energies = [np.square(part).sum(dtype=np.float64) for part in (*frames.T, mean)]
    loudest = int(np.argmax(energies[:2]))
    if energies[2] < _CANCELLATION**2 * energies[loudest]:
        return np.ascontiguousarray(frames[:, loudest])
    return mean


def loudness_dbfs(samples: npt.NDArray[np.float32], sample_rate: int) -> float:
    """Return the loudness of the loud part of `samples`, float32 [N], in dB of full scale.

    The 95th percentile of the RMS of 20 ms frames without a constant offset: a click does not make
    a recording loud, and long pauses do not make it silent.
    """
    frame = max(1, round(_FRAME_SECONDS * sample_rate))
    count = max(1, len(samples) // frame)
    frames = samples[: count * frame].reshape(count, -1)
    centred = frames - samples.mean()
    power = np.einsum("ts,ts->t", centred, centred) / np.float32(centred.shape[1])
    rank = round(_LOUD_SHARE * (len(power) - 1))
    loud = float(np.partition(power, rank)[rank])
    return 10 * float(np.log10(max(loud, 1e-20)))


def check_recording(recording: Recording, limits: DecodeLimits) -> None:
    """Raise `too_short`, `too_long`, `corrupt` or `silent` if it cannot be converted."""
    if recording.seconds > limits.longest:
        raise too_long(limits)
    if recording.seconds < limits.shortest and recording.damaged:
        raise VoiceError(
            ErrorCode.CORRUPT,
            f"The recording is damaged or cut off: only {recording.seconds:.2f} s of it can be "
            f"decoded, and {limits.min_seconds:g} s are needed; record it again.",
        )
    if recording.seconds < limits.shortest:
        raise VoiceError(
            ErrorCode.TOO_SHORT,
            f"The recording is {recording.seconds:.2f} s long; "
            f"at least {limits.min_seconds:g} s are needed.",
        )
    samples = recording.samples
    peak = float(np.maximum(samples.max(initial=0.0), -samples.min(initial=0.0)))
    if not np.isfinite(peak):
        raise VoiceError(ErrorCode.CORRUPT, "The recording has samples that are not numbers.")
    if peak > MAX_PEAK:
        raise VoiceError(
            ErrorCode.CORRUPT,
            f"The recording has samples up to {peak:.4g}, where full scale is 1; "
            "it is damaged or written with another scale.",
        )
    if loudness_dbfs(samples, recording.sample_rate) < SILENCE_DBFS:
        raise VoiceError(
            ErrorCode.SILENT,
            "The recording is silent; check that the microphone is on and not muted.",
        )


def too_long(limits: DecodeLimits) -> VoiceError:
    return VoiceError(
        ErrorCode.TOO_LONG,
        f"The recording is longer than {limits.max_seconds:g} s; record less.",
    )
