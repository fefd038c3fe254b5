"""The messages between the decoder, the zygote and a decoding process.

To start a job, the decoder sends the zygote one byte together with two sockets and a file in
memory. The decoder writes a `DecodingJob` and then the encoded recording to the first socket, and
closes it for writing. On the second socket the process first sends its number, if the byte asks for
it; when the process has ended, the zygote sends a `ProcessExit`. Closing the second socket kills
the process. The process writes interleaved samples as they were decoded to the file, and as the
last bytes a `DecodingVerdict`. The decoder reads the file only after the process has ended. All
messages are JSON of limited length; what comes from a decoding process is checked.

A recording can also be decoded while it comes. In place of the file the process then gets a third
socket, to which it writes pieces with their length in front: first a verdict that says what the
samples are, then samples, a piece without content, and a verdict about the whole.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from dataclasses import asdict, dataclass
from typing import Final

from shared.voices.media import Container

SAMPLE_TYPES: Final = ("u8", "s16", "s32", "s64", "flt", "dbl")
"""The types of samples by FFmpeg's names: integers, and floats with full scale 1.0."""

START: Final = b"S"
START_AND_TELL: Final = b"T"
READY: Final = b"R"

MIN_SAMPLE_RATE: Final = 8_000
MAX_SAMPLE_RATE: Final = 192_000
MAX_CHANNELS: Final = 8

LONGEST_MESSAGE: Final = 2048
LENGTH: Final = struct.Struct("!H")
PIECE_LENGTH: Final = struct.Struct("!I")
PROCESS_ID: Final = struct.Struct("!i")

MAX_VERDICT_BYTES: Final = LONGEST_MESSAGE + LENGTH.size

_LONGEST_SENTENCE: Final = 160


@dataclass(frozen=True, slots=True)
class DecodingJob:
    """The order to a decoding process; `incoming_bytes` is 0 unless they come while it decodes."""

    container: Container
    max_seconds: float
    cpu_seconds: int
    memory_bytes: int
    wall_seconds: float
    answer_bytes: int
    incoming_bytes: int = 0
    takes_beginning: bool = False

    def pack(self) -> bytes:
        text = json.dumps(asdict(self)).encode()
        return LENGTH.pack(len(text)) + text

    @classmethod
    def unpack(cls, text: bytes) -> DecodingJob:
        """Read a job, whose length is already read; only the service may have written it."""
        fields = json.loads(text)
        return cls(**{**fields, "container": Container(fields["container"])})


@dataclass(frozen=True, slots=True)
class DecodingVerdict:
    """The result of decoding: an error's code and message, or the form of the samples."""

    code: str = ""
    message: str = ""
    codec: str = ""
    sample_type: str = ""
    sample_rate: int = 0
    channels: int = 0
    weights: tuple[float, ...] = ()
    samples: int = 0
    damaged: bool = False
    missing_seconds: float = 0.0
    needs_whole: bool = False
    confined: bool = False

    def pack(self) -> bytes:
        text = self.text()
        return text + LENGTH.pack(len(text))

    def text(self) -> bytes:
        """Return the verdict alone; a sentence that is too long is cut."""
        fields = {**asdict(self), "message": self.message[:_LONGEST_SENTENCE]}
        return json.dumps(fields).encode()


@dataclass(frozen=True, slots=True)
class ProcessExit:
    status: int
    cpu_seconds: float

    def pack(self) -> bytes:
        text = json.dumps(asdict(self)).encode()
        return LENGTH.pack(len(text)) + text


def split_answer(answer: memoryview) -> tuple[memoryview, bytes]:
    """Split output into samples and the verdict's text; no text if its length is impossible."""
    if len(answer) < LENGTH.size:
        return answer, b""
    (length,) = LENGTH.unpack(answer[-LENGTH.size :])
    begin = len(answer) - LENGTH.size - length
    if length > LONGEST_MESSAGE or begin < 0:
        return answer, b""
    return answer[:begin], bytes(answer[begin : begin + length])


# A process has its own time limit; this much later the service stops waiting for it.
GRACE_SECONDS: Final = 1.0

_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def bare_environment() -> dict[str, str]:
    """Return the variables without which libraries are not found, and no other of the service."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def python_command(module: str) -> tuple[str, ...]:
    """Return the command that calls `main` of a module, with this process's search path."""
    search_path = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
    program = f"{search_path}; from {module} import main; main()"
    return (sys.executable, "-I", "-c", program, json.dumps(sys.path))
