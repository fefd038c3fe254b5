"""Writes WAV files: 16-bit PCM, marked as synthetic speech."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from speech.results.marking import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    from speech.results.marking import Marking

_PCM: Final = 1
_BYTES_PER_SAMPLE: Final = 2
_FULL_SCALE: Final = 32767
_UNKNOWN: Final = b"\xff\xff\xff\xff"


def write_wav(
    samples: npt.NDArray[np.float32], sample_rate: int, marking: Marking | None = None
) -> bytes:
    """Return `samples`, float32 [N] with full scale 1.0, as a WAV file; [N, 2] is stereo.

    Samples over full scale are clipped. The marking is in a LIST/INFO chunk and, for programs, as
    XMP in a `_PMX` chunk (XMP specification part 3, RIFF files). Both come before the samples, so
    that whoever reads a stream reads them first.
    """
    return wav_file(to_pcm16(samples).tobytes(), sample_rate, samples.ndim, marking)


def wav_file(pcm: bytes, sample_rate: int, channels: int, marking: Marking | None = None) -> bytes:
    """Return PCM of 16 bits as a WAV file; see write_wav."""
    description = _description(sample_rate, channels, marking)
    return _chunk(b"RIFF", b"WAVE" + description + _chunk(b"data", pcm))


def begin_wav(sample_rate: int, channels: int, marking: Marking | None = None) -> bytes:
    """Return the beginning of a WAV file of unknown length; samples follow until its end."""
    description = _description(sample_rate, channels, marking)
    return b"".join(
        (b"RIFF", _UNKNOWN, b"WAVE", description, b"data", _UNKNOWN),
    )


def _description(sample_rate: int, channels: int, marking: Marking | None) -> bytes:
    frame = channels * _BYTES_PER_SAMPLE
    header = struct.pack(
        "<HHIIHH",
        _PCM,
        channels,
        sample_rate,
        sample_rate * frame,
        frame,
        8 * _BYTES_PER_SAMPLE,
    )
    chunks = [_chunk(b"fmt ", header)]
    if marking is not None:
        chunks += [_chunk(b"LIST", _info(marking)), _chunk(b"_PMX", marking.xmp())]
    return b"".join(chunks)


def to_pcm16(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Round `samples`, float32 [N] with full scale 1.0, to int16 [N], clipping at full scale."""
    scaled = np.rint(np.clip(samples, -1.0, 1.0) * _FULL_SCALE)
    return scaled.astype("<i2")


def _info(marking: Marking) -> bytes:
    texts = {
        b"INAM": marking.title,
        b"IART": marking.character_name,
        b"ICMT": marking.comment,
        b"IKEY": f"synthetic speech; {DIGITAL_SOURCE_TYPE}",
    }
    entries = (_chunk(name, text.encode() + b"\0") for name, text in texts.items())
    return b"INFO" + b"".join(entries)


def _chunk(name: bytes, content: bytes) -> bytes:
    padding = b"\0" * (len(content) % 2)
    return struct.pack("<4sI", name, len(content)) + content + padding
