"""A decoding process on systems without fork: the recording comes over stdin, the answer to stdout.

It uses the same format as a forked process (see wire.py): a `Job` and the recording come in,
samples and a `Verdict` go out.
"""

from __future__ import annotations

import os
import sys

import av.logging

from speech.decoding.recordings.judging import decode_into
from speech.decoding.recordings.wire import LENGTH, DecodingJob


def main() -> None:
    """Decode one recording and end."""
    av.logging.set_level(None)
    answer_descriptor = os.dup(sys.stdout.fileno())
    # Whatever a library prints must not get into the answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    job = DecodingJob.unpack(sys.stdin.buffer.read(length))
    recording = sys.stdin.buffer.read()
    with os.fdopen(answer_descriptor, "wb") as answer:
        answer.write(decode_into(answer, recording, job, confined=False).pack())
