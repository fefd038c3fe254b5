"""Encodes samples with FFmpeg's libraries, in memory."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import av
import numpy as np

from shared.voices.voice import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    from av.audio.stream import AudioStream
    from av.container import OutputContainer

    from shared.speech.results.statement import Marking

# The user type that XMP has in MP4 files (XMP specification part 3).
_XMP_BOX: Final = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")

_CHUNK: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The encoding of one format: muxer, codec, and the sample rates that the codec supports."""

    muxer: str
    codec: str
    bit_rate: int
    sample_rates: tuple[int, ...]
    muxer_options: Mapping[str, str] = field(default_factory=dict)
    codec_options: Mapping[str, str] = field(default_factory=dict)


_RECIPES: Final[Mapping[OutputFormat, _Recipe]] = MappingProxyType(
    {
        OutputFormat.MP3: _Recipe(
            muxer="mp3",
            codec="libmp3lame",
            bit_rate=128_000,
            sample_rates=(16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
            muxer_options={"id3v2_version": "3", "write_xing": "1"},
            # Measured: at this rate, the searches that this skips only take time.
            codec_options={"compression_level": "7"},
        ),
        OutputFormat.M4A: _Recipe(
            muxer="ipod",
            codec="aac",
            bit_rate=96_000,
            sample_rates=(16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
            muxer_options={"movflags": "+faststart"},
            # The default search takes longer than the conversion; spectra get 0.3 dB closer.
            codec_options={"aac_coder": "fast"},
        ),
        OutputFormat.OGG: _Recipe(
            muxer="ogg",
            codec="libopus",
            bit_rate=64_000,
            sample_rates=(48_000,),
            codec_options={"application": "audio", "compression_level": "5"},
        ),
    }
)


def compress(
    samples: npt.NDArray[np.float32],
    sample_rate: int,
    output_format: OutputFormat,
    marking: Marking,
) -> bytes:
    """Return `samples`, float32 [N] with full scale 1.0, as an MP3, M4A or Ogg file.

    The file states the encoder's delay and the padding at the end (LAME header, edit list, Opus
    pre-skip), so that players that support this play exactly the given samples.
    """
    recipe = _RECIPES[output_format]
    file = io.BytesIO()
    with av.open(
        file,
        mode="w",
        format=recipe.muxer,
        # Leaves out times and random serial numbers: the same samples give the same bytes.
        options={"fflags": "+bitexact", **recipe.muxer_options},
        io_open=lambda *_: _Reader(file),
    ) as container:
        container.metadata.update(_tags(output_format, marking))
        _encode(container, recipe, samples, sample_rate)
    if output_format is OutputFormat.M4A:
        # At the end of the file, so that the offsets in it stay right.
        xmp = marking.xmp()
        return file.getvalue() + struct.pack(">I4s", 24 + len(xmp), b"uuid") + _XMP_BOX + xmp
    return file.getvalue()


class _Reader(io.RawIOBase):
    """A second, independent view of a file in memory that is still being written.

    The muxer needs one to move the index in front of the samples.
    """

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with self._file.getbuffer() as content:
            end = len(content) if size < 0 else self._position + size
            piece = bytes(content[self._position : end])
        self._position += len(piece)
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}
        with self._file.getbuffer() as content:
            start[io.SEEK_END] = len(content)
        self._position = start[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position


def _tags(output_format: OutputFormat, marking: Marking) -> dict[str, str]:
    tags = marking.tags()
    if output_format is OutputFormat.MP3:
        tags["id3v2_priv.XMP"] = marking.xmp().decode()
    return tags


def _encode(
    container: OutputContainer,
    recipe: _Recipe,
    samples: npt.NDArray[np.float32],
    sample_rate: int,
) -> None:
    rate = _nearest_rate(recipe, sample_rate)
    stream = cast(
        "AudioStream",
        container.add_stream(
            recipe.codec,
            rate=rate,
            options={"flags": "+bitexact", **recipe.codec_options},
            layout="mono",
            bit_rate=recipe.bit_rate,
        ),
    )
    resampler = av.AudioResampler(format=stream.format, layout="mono", rate=rate)
    for chunk in _frames(samples, sample_rate):
        for frame in resampler.resample(chunk):
            container.mux(stream.encode(frame))
    for frame in resampler.resample(None):
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _nearest_rate(recipe: _Recipe, sample_rate: int) -> int:
    """Return the lowest rate that loses nothing, or else the highest rate."""
    higher = (rate for rate in recipe.sample_rates if rate >= sample_rate)
    return next(higher, recipe.sample_rates[-1])


def _frames(samples: npt.NDArray[np.float32], sample_rate: int) -> Iterator[av.AudioFrame]:
    clipped = np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False)
    for start in range(0, len(clipped), _CHUNK):
        piece = np.ascontiguousarray(clipped[start : start + _CHUNK]).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout="mono")
        frame.sample_rate = sample_rate
        frame.pts = start
        yield frame
