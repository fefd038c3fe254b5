"""Results as files that are marked as synthetic speech: WAV as 16-bit PCM, others by FFmpeg.

Its libraries are loaded when they are needed: that takes as long as a conversion.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from shared.speech.results.statement import DIGITAL_SOURCE_TYPE
from shared.voices.media import result_content_type, result_extension
from shared.voices.voice import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from av.audio.stream import AudioStream

    from shared.speech.results.statement import Marking
    from shared.speech.signal.sound import Samples

_PCM: Final = 1
_BYTES_PER_SAMPLE: Final = 2
_FULL_SCALE: Final = 32767
_UNKNOWN: Final = b"\xff\xff\xff\xff"

# The user type that XMP has in MP4 files (XMP specification part 3).
_XMP_BOX: Final = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")

_CHUNK: Final = 65_536


def write_wav(samples: Samples, sample_rate: int, marking: Marking | None = None) -> bytes:
    """Return float32 [N] or, stereo, [N, 2] with full scale 1.0 as a WAV file.

    The marking (LIST/INFO, and XMP in `_PMX`) comes before the samples, for readers of streams.
    """
    return wav_file(to_pcm16(samples).tobytes(), sample_rate, samples.ndim, marking)


def wav_file(pcm: bytes, sample_rate: int, channels: int, marking: Marking | None = None) -> bytes:
    description = _describe_wav(sample_rate, channels, marking)
    return _chunk(b"RIFF", b"WAVE" + description + _chunk(b"data", pcm))


def begin_wav(sample_rate: int, channels: int, marking: Marking | None = None) -> bytes:
    description = _describe_wav(sample_rate, channels, marking)
    return b"".join((b"RIFF", _UNKNOWN, b"WAVE", description, b"data", _UNKNOWN))


def to_pcm16(samples: Samples) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Round `samples` with full scale 1.0 to int16 of the same shape, clipping at full scale."""
    return np.rint(np.clip(samples, -1.0, 1.0) * _FULL_SCALE).astype("<i2")


def _describe_wav(sample_rate: int, channels: int, marking: Marking | None) -> bytes:
    frame = channels * _BYTES_PER_SAMPLE
    rates = (sample_rate, sample_rate * frame, frame, 8 * _BYTES_PER_SAMPLE)
    chunks = [_chunk(b"fmt ", struct.pack("<HHIIHH", _PCM, channels, *rates))]
    if marking is not None:
        texts = {
            b"INAM": marking.title,
            b"IART": marking.character_name,
            b"ICMT": marking.comment,
            b"IKEY": f"synthetic speech; {DIGITAL_SOURCE_TYPE}",
        }
        entries = (_chunk(name, text.encode() + b"\0") for name, text in texts.items())
        chunks += [_chunk(b"LIST", b"INFO" + b"".join(entries)), _chunk(b"_PMX", marking.xmp())]
    return b"".join(chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    padding = b"\0" * (len(content) % 2)
    return struct.pack("<4sI", name, len(content)) + content + padding


@dataclass(frozen=True, slots=True)
class FfmpegRecipe:
    muxer: str
    codec: str
    muxer_options: Mapping[str, str] = field(default_factory=dict)
    codec_options: Mapping[str, str] = field(default_factory=dict)


class FfmpegEncoder:
    """Encodes one channel with FFmpeg's libraries, piece by piece; used by one thread at a time.

    The samples are resampled from `input_rate` to `rate`, both in Hz. Without times and random
    serial numbers, the same samples give the same bytes.
    """

    def __init__(
        self,
        file: io.IOBase,
        recipe: FfmpegRecipe,
        tags: Mapping[str, str],
        *,
        input_rate: int,
        rate: int,
        bit_rate: int | None,
        io_open: Callable[..., io.IOBase] | None = None,
    ) -> None:
        import av  # noqa: PLC0415 - see the module

        self._frame = av.AudioFrame
        # A listener gets each packet at once.
        options = {"fflags": "+bitexact+flush_packets", **recipe.muxer_options}
        self._container = av.open(
            file, mode="w", format=recipe.muxer, options=options, io_open=io_open
        )
        self._container.metadata.update(tags)
        stream = self._container.add_stream(
            recipe.codec,
            rate=rate,
            options={"flags": "+bitexact", **recipe.codec_options},
            layout="mono",
        )
        self._stream = cast("AudioStream", stream)
        if bit_rate is not None:
            self._stream.bit_rate = bit_rate
        self._resampler = av.AudioResampler(format=self._stream.format, layout="mono", rate=rate)
        self._rate = input_rate
        self._written = 0

    def write(self, samples: Samples) -> None:
        """Encode the next samples, float32 [N] with full scale 1.0; larger ones are clipped."""
        clipped = np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False)
        for start in range(0, len(clipped), _CHUNK):
            piece = np.ascontiguousarray(clipped[start : start + _CHUNK]).reshape(1, -1)
            frame = self._frame.from_ndarray(piece, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = self._rate, self._written
            self._written += piece.shape[1]
            for part in self._resampler.resample(frame):
                self._container.mux(self._stream.encode(part))

    def finish(self) -> None:
        for part in self._resampler.resample(None):
            self._container.mux(self._stream.encode(part))
        self._container.mux(self._stream.encode(None))
        self._container.close()


_RECIPES: Final = {
    OutputFormat.MP3: FfmpegRecipe(
        "mp3",
        "libmp3lame",
        {"id3v2_version": "3", "write_xing": "1"},
        # Measured: at this rate, the searches that this skips only take time.
        {"compression_level": "7"},
    ),
    # The default search takes longer than the conversion; spectra get 0.3 dB closer.
    OutputFormat.M4A: FfmpegRecipe(
        "ipod", "aac", {"movflags": "+faststart"}, {"aac_coder": "fast"}
    ),
    OutputFormat.OGG: FfmpegRecipe(
        "ogg", "libopus", codec_options={"application": "audio", "compression_level": "5"}
    ),
}
_BIT_RATES: Final = {
    OutputFormat.MP3: 128_000,
    OutputFormat.M4A: 96_000,
    OutputFormat.OGG: 64_000,
}
# Of MP3 and AAC; Opus has the last.
_SAMPLE_RATES: Final = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


def _compress(
    samples: Samples, sample_rate: int, output_format: OutputFormat, marking: Marking
) -> bytes:
    """Return `samples` as an MP3, M4A or Ogg file, which states its delay and padding."""
    rates = _SAMPLE_RATES[-1:] if output_format is OutputFormat.OGG else _SAMPLE_RATES
    tags = marking.tags()
    if output_format is OutputFormat.MP3:
        tags["id3v2_priv.XMP"] = marking.xmp().decode()
    file = io.BytesIO()
    encoder = FfmpegEncoder(
        file,
        _RECIPES[output_format],
        tags,
        input_rate=sample_rate,
        # The lowest rate that loses nothing, or else the highest rate.
        rate=next((rate for rate in rates if rate >= sample_rate), rates[-1]),
        bit_rate=_BIT_RATES[output_format],
        # The muxer reads the file again, to move the index in front of the samples.
        io_open=lambda *_: io.BytesIO(file.getvalue()),
    )
    encoder.write(samples)
    encoder.finish()
    if output_format is OutputFormat.M4A:
        # At the end of the file, so that the offsets in it stay right.
        xmp = marking.xmp()
        return file.getvalue() + struct.pack(">I4s", 24 + len(xmp), b"uuid") + _XMP_BOX + xmp
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class EncodedResult:
    data: bytes
    content_type: str
    extension: str
    seconds: float


def encode_result(
    samples: Samples, sample_rate: int, output_format: OutputFormat, marking: Marking
) -> EncodedResult:
    """Encode speech, float32 [N] with full scale 1.0, and mark it; the same gives the same bytes.

    It takes some tens of milliseconds: call it in a thread.
    """
    if output_format is OutputFormat.WAV:
        data = write_wav(samples, sample_rate, marking)
    else:
        data = _compress(samples, sample_rate, output_format, marking)
    content_type, extension = result_content_type(output_format), result_extension(output_format)
    return EncodedResult(data, content_type, extension, len(samples) / sample_rate)
