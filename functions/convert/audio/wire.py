"""What goes over the sockets between the decoder, the zygote and a decoding process.

The decoder starts a job by sending the zygote one byte with two sockets. Over the first it writes
a `Job`, then the encoded recording, then nothing more; it reads back interleaved float32 samples
and, as the last bytes before the end, a `Verdict`. Over the second the process writes its number
at once, and the zygote, when the process is gone, one `Exit`; closing it kills the process.
Nothing is pickled, and nothing that comes from a decoding process is taken for more than numbers
and short texts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from shared.media import Container

START: Final = b"S"
READY: Final = b"R"

_JOB: Final = struct.Struct("!16sdIQd")
_VERDICT: Final = struct.Struct("!4s24s24sIIQ??160s")
PROCESS_ID: Final = struct.Struct("!i")
_EXIT: Final = struct.Struct("!id")
_MAGIC: Final = b"VoV1"


@dataclass(frozen=True, slots=True)
class Job:
    """What the decoding process is told.

    Attributes:
        container: what the recording is, by its magic bytes.
        max_seconds: decoding stops after so much audio.
        cpu_seconds: limit of processor time.
        memory_bytes: limit of address space, beyond what the process starts with.
        wall_seconds: limit of time altogether.
    """

    container: Container
    max_seconds: float
    cpu_seconds: int
    memory_bytes: int
    wall_seconds: float

    SIZE = _JOB.size

    def pack(self) -> bytes:
        """The job as `Job.SIZE` bytes."""
        return _JOB.pack(
            self.container.value.encode(),
            self.max_seconds,
            self.cpu_seconds,
            self.memory_bytes,
            self.wall_seconds,
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
        sample_rate: in Hz.
        channels: how many channels the recording has; the samples that are sent have one or two.
        samples: how many samples of each channel were sent.
        damaged: some of the recording could not be decoded.
        confined: the system call filter was in force.
    """

    code: str = ""
    message: str = ""
    codec: str = ""
    sample_rate: int = 0
    channels: int = 0
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
            self.sample_rate,
            self.channels,
            self.samples,
            self.damaged,
            self.confined,
            self.message.encode(),
        )

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Verdict | None:
        """Read what `pack` wrote, or None if this is no verdict."""
        if len(data) != _VERDICT.size or not data.startswith(_MAGIC):
            return None
        _, code, codec, rate, channels, samples, damaged, confined, message = _VERDICT.unpack(data)
        return cls(
            code=_text(code),
            message=_text(message),
            codec=_text(codec),
            sample_rate=rate,
            channels=channels,
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
