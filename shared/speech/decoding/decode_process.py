"""The work of a decoding process: decode one recording and write the verdict about it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO

import av.logging

from shared.speech.decoding.demuxing import Demuxer
from shared.speech.decoding.wire import (
    LENGTH,
    MAX_VERDICT_BYTES,
    PIECE_LENGTH,
    DecodingJob,
    DecodingVerdict,
)
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.speech.decoding.demuxing import IncomingFile


def decode_into(
    answer: BinaryIO, recording: bytes, job: DecodingJob, *, confined: bool
) -> DecodingVerdict:
    """Write interleaved samples to `answer`, return the verdict; OSError means nobody listens."""
    demuxer = Demuxer(recording, job.container, takes_beginning=job.takes_beginning)
    samples = demuxer.chunks(job.max_seconds, job.answer_bytes - MAX_VERDICT_BYTES)
    return _judge(demuxer, lambda: answer.writelines(samples), confined=confined)


def decode_stream(
    answer: BinaryIO, recording: IncomingFile, job: DecodingJob, *, confined: bool
) -> None:
    """Write the samples of a recording to `answer` as they come, in pieces (see wire.py)."""
    demuxer = Demuxer(recording, job.container)

    def write_piece(piece: bytes | memoryview) -> None:
        answer.write(PIECE_LENGTH.pack(len(piece)))
        answer.write(piece)

    def write_all() -> None:
        is_first = True
        # The same channels must be sent as of the whole recording.
        for samples in demuxer.chunks(job.max_seconds, job.answer_bytes - MAX_VERDICT_BYTES):
            if is_first:
                write_piece(_describe(demuxer, confined=confined).text())
                is_first = False
            write_piece(samples)

    verdict = _judge(demuxer, write_all, confined=confined)
    write_piece(b"")
    write_piece(verdict.text())
    answer.flush()


def _judge(demuxer: Demuxer, decode: Callable[[], None], *, confined: bool) -> DecodingVerdict:
    try:
        decode()
    except VoiceError as error:
        code, message = error.code, error.message
    except MemoryError:
        code, message = ErrorCode.TOO_COMPLEX, "The recording needs too much memory to be decoded."
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever FFmpeg finds wrong is the recording's fault
        code = ErrorCode.CORRUPT
        message = f"The recording cannot be decoded ({type(error).__name__}); record it again."
    else:
        return _describe(demuxer, confined=confined)
    return DecodingVerdict(code=code, message=message, confined=confined)


def _describe(demuxer: Demuxer, *, confined: bool) -> DecodingVerdict:
    found = demuxer.format
    if found is None:
        raise RuntimeError("a recording without a format was accepted")
    return DecodingVerdict(
        codec=found.codec,
        sample_type=found.sample_type,
        sample_rate=found.sample_rate,
        channels=found.channels,
        weights=found.weights,
        samples=demuxer.samples,
        damaged=demuxer.damaged,
        missing_seconds=round(demuxer.missing_seconds, 3),
        needs_whole=demuxer.needs_whole,
        confined=confined,
    )


def main() -> None:
    av.logging.set_level(None)
    answer_descriptor = os.dup(sys.stdout.fileno())
    # Output of the libraries must not get into the answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    job = DecodingJob.unpack(sys.stdin.buffer.read(length))
    recording = sys.stdin.buffer.read()
    with os.fdopen(answer_descriptor, "wb") as answer:
        answer.write(decode_into(answer, recording, job, confined=False).pack())
