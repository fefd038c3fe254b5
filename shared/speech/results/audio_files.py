"""Results as files that are marked as synthetic speech; WAV is written here as 16-bit PCM."""

from __future__ import annotations

import importlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.speech.results.statement import DIGITAL_SOURCE_TYPE
from shared.voices.media import result_content_type, result_extension
from shared.voices.voice import OutputFormat

if TYPE_CHECKING:
    import numpy.typing as npt

    from shared.speech.results.statement import Marking


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
    that the reader of a stream has them first.
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


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result, ready to be stored."""

    data: bytes
    content_type: str
    extension: str
    seconds: float


def encode(
    samples: npt.NDArray[np.float32],
    sample_rate: int,
    output_format: OutputFormat,
    marking: Marking,
) -> Encoded:
    """Encode one channel of speech and mark it as synthetic.

    The same samples and marking give the same bytes. Takes a few milliseconds for WAV and some
    tens for the other formats: call it in a thread.

    Args:
        samples: float32 [N], full scale 1.0; larger samples are clipped.
        sample_rate: in Hz; formats that do not know it get the samples resampled.
    """
    if output_format is OutputFormat.WAV:
        data = write_wav(samples, sample_rate, marking)
    else:
        # Loading FFmpeg's libraries takes as long as a conversion, and WAV does not need them.
        compression = importlib.import_module("shared.speech.results.compression")
        data = compression.compress(samples, sample_rate, output_format, marking)
    return Encoded(
        data=data,
        content_type=result_content_type(output_format),
        extension=result_extension(output_format),
        seconds=len(samples) / sample_rate,
    )
