"""Encodes samples as a result: WAV, MP3, M4A (AAC) or Ogg (Opus)."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.voices.media import result_content_type, result_extension
from shared.voices.voice import OutputFormat
from speech.results.wav import write_wav

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from speech.results.marking import Marking


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result, ready to be stored.

    Attributes:
        data: the file.
        content_type: its media type.
        extension: its file name extension, with the dot.
        seconds: how long it plays.
    """

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
        output_format: of the result.
        marking: the statement that the file holds synthetic speech.
    """
    if output_format is OutputFormat.WAV:
        data = write_wav(samples, sample_rate, marking)
    else:
        # Loading FFmpeg's libraries takes as long as a conversion, and WAV does not need them.
        compression = importlib.import_module("speech.results.compression")
        data = compression.compress(samples, sample_rate, output_format, marking)
    return Encoded(
        data=data,
        content_type=result_content_type(output_format),
        extension=result_extension(output_format),
        seconds=len(samples) / sample_rate,
    )
