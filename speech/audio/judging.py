"""What every decoding process does with a recording: decode it and say how that went."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from shared.voice import ErrorCode, VoiceError
from speech.audio import demuxing
from speech.audio.wire import MAX_VERDICT_BYTES, Verdict

if TYPE_CHECKING:
    from speech.audio.wire import Job


def decode_into(answer: BinaryIO, recording: bytes, job: Job, *, confined: bool) -> Verdict:
    """Write the samples of a recording to `answer` and return the verdict about it.

    Args:
        answer: takes interleaved samples as they were decoded.
        recording: as it was uploaded.
        job: its container, and how much may be written.
        confined: whether this process runs behind the system call filter.

    Raises:
        OSError: the answer cannot be written, so that nobody can be told anything.
    """
    try:
        demuxer = demuxing.Demuxer(recording, job.container)
        answer.writelines(demuxer.chunks(job.max_seconds, job.answer_bytes - MAX_VERDICT_BYTES))
    except VoiceError as error:
        return Verdict(code=error.code, message=error.message, confined=confined)
    except MemoryError:
        return Verdict(
            code=ErrorCode.TOO_COMPLEX,
            message="The recording needs too much memory to be decoded.",
            confined=confined,
        )
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever FFmpeg finds wrong is the recording's fault
        return Verdict(
            code=ErrorCode.CORRUPT,
            message=f"The recording cannot be decoded ({type(error).__name__}); record it again.",
            confined=confined,
        )
    found = demuxer.format
    if found is None:
        raise RuntimeError("a recording without a format was accepted")
    return Verdict(
        codec=found.codec,
        sample_type=found.sample_type,
        sample_rate=found.sample_rate,
        channels=found.channels,
        weights=found.weights,
        samples=demuxer.samples,
        damaged=demuxer.damaged,
        confined=confined,
    )
