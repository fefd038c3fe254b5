"""The messages between the decoder, the zygote and a decoding process.

To start a job, the decoder sends the zygote one byte together with two sockets and a file in
memory. The decoder writes a `Job` and then the encoded recording to the first socket, and closes it
for writing. On the second socket the process first sends its number, if the byte asks for it; when
the process has ended, the zygote sends one `Exit`. Closing the second socket kills the process. The
process writes interleaved samples as they were decoded to the file, and as the last bytes a
`Verdict`. The decoder reads the file only after the process has ended. Nothing is pickled: what
comes from a decoding process is read as numbers and short texts only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from shared.media import Container

SAMPLE_TYPES: Final = ("u8", "s16", "s32", "s64", "flt", "dbl")
"""The types of samples by FFmpeg's names: integers, and floats with full scale 1.0."""

START: Final = b"S"
START_AND_TELL: Final = b"T"
READY: Final = b"R"

MIN_SAMPLE_RATE: Final = 8_000
MAX_SAMPLE_RATE: Final = 192_000
MAX_CHANNELS: Final = 8

_JOB: Final = struct.Struct("!16sdIQdQ")
_VERDICT: Final = struct.Struct(f"!4s24s24s4sIIB{MAX_CHANNELS}dQ??160s")
PROCESS_ID: Final = struct.Struct("!i")
_EXIT: Final = struct.Struct("!id")
_NO_WEIGHTS: Final = (0.0,) * MAX_CHANNELS
_MAGIC: Final = b"VoV2"


@dataclass(frozen=True, slots=True)
class Job:
    """What a decoding process is to do.

    Attributes:
        container: the recording's container, by its magic bytes.
        max_seconds: decoding stops after this much audio.
        cpu_seconds: limit of processor time.
        memory_bytes: limit of address space beyond what the process starts with.
        wall_seconds: limit of time by the clock.
        answer_bytes: limit of the answer's size.
    """

    container: Container
    max_seconds: float
    cpu_seconds: int
    memory_bytes: int
    wall_seconds: float
    answer_bytes: int

    SIZE = _JOB.size

    def pack(self) -> bytes:
        """The job as `Job.SIZE` bytes."""
        return _JOB.pack(
            self.container.value.encode(),
            self.max_seconds,
            self.cpu_seconds,
            self.memory_bytes,
            self.wall_seconds,
            self.answer_bytes,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Job:
        """Read what `pack` wrote."""
        container, *limits = _JOB.unpack(data)
        return cls(Container(_text(container)), *limits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the decoding process says about the recording.

    Attributes:
        code: an error code, or "" if the recording was decoded.
        message: the sentence that goes with the code.
        codec: name of the codec.
        sample_type: one of SAMPLE_TYPES.
        sample_rate: in Hz.
        channels: how many channels the recording has.
        weights: the weight of each channel that was sent in the mix.
        samples: how many samples of each channel were sent.
        damaged: some of the recording could not be decoded.
        confined: the system call filter was in force.
    """

    code: str = ""
    message: str = ""
    codec: str = ""
    sample_type: str = ""
    sample_rate: int = 0
    channels: int = 0
    weights: tuple[float, ...] = ()
    samples: int = 0
    damaged: bool = False
    confined: bool = False

    SIZE = _VERDICT.size

    def pack(self) -> bytes:
        """The verdict as `Verdict.SIZE` bytes; texts that are too long are cut."""
        return _VERDICT.pack(
            _MAGIC,
            self.code.encode(),
            self.codec.encode(),
            self.sample_type.encode(),
            self.sample_rate,
            self.channels,
            len(self.weights),
            *(*self.weights, *_NO_WEIGHTS)[:MAX_CHANNELS],
            self.samples,
            self.damaged,
            self.confined,
            self.message.encode(),
        )

    @classmethod
    def unpack(cls, data: bytes) -> Verdict | None:
        """Read what `pack` wrote, or None if this is no verdict."""
        if len(data) != _VERDICT.size or not data.startswith(_MAGIC):
            return None
        _, code, codec, kind, rate, channels, sent, *rest = _VERDICT.unpack(data)
        samples, damaged, confined, message = rest[MAX_CHANNELS:]
        return cls(
            code=_text(code),
            message=_text(message),
            codec=_text(codec),
            sample_type=_text(kind),
            sample_rate=rate,
            channels=channels,
            weights=tuple(rest[: min(sent, MAX_CHANNELS)]),
            samples=samples,
            damaged=damaged,
            confined=confined,
        )


@dataclass(frozen=True, slots=True)
class Exit:
    """How the decoding process ended.

    Attributes:
        status: its exit status, or the negative number of the signal that killed it.
        cpu_seconds: processor time it used.
    """

    status: int
    cpu_seconds: float

    SIZE = _EXIT.size

    def pack(self) -> bytes:
        """The exit as `Exit.SIZE` bytes."""
        return _EXIT.pack(self.status, self.cpu_seconds)

    @classmethod
    def unpack(cls, data: bytes) -> Exit | None:
        """Read what `pack` wrote, or None if this is no exit."""
        return cls(*_EXIT.unpack(data)) if len(data) == _EXIT.size else None


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode(errors="replace")
