"""The formats in which clients can ask for sound."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast

import numpy as np
import soxr

from shared.speech.results.audio_files import (
    FfmpegEncoder,
    FfmpegRecipe,
    begin_wav,
    to_pcm16,
)
from shared.speech.signal.samples import RESAMPLING_QUALITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.speech.results.statement import Marking
    from shared.speech.signal.sound import Samples


class Codec(Enum):
    """The ways to write samples, with their media types.

    PCM of 16 bits, little-endian, and the mu-law and A-law of ITU-T G.711 have no header.
    """

    PCM = "audio/pcm"
    ULAW = "audio/basic"
    ALAW = "audio/x-alaw-basic"
    WAV = "audio/wav"
    MP3 = "audio/mpeg"
    OPUS = "audio/ogg"
    AAC = "audio/aac"
    FLAC = "audio/flac"


@dataclass(frozen=True, slots=True)
class SoundFormat:
    """A format of one channel; Opus is always at 48 kHz."""

    codec: Codec
    sample_rate: int  # Hz
    bit_rate: int | None = None  # bits a second

    @property
    def bytes_per_second(self) -> int:
        """The bytes of a second in PCM, mu-law or A-law."""
        return self.sample_rate * (2 if self.codec is Codec.PCM else 1)

    @property
    def content_type(self) -> str:
        return self.codec.value


RAW_RATES: Final = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

# Formats without header and end, by the names that clients give them.
FORMATS_WITHOUT_FILE: Final[Mapping[str, SoundFormat]] = MappingProxyType(
    {
        **{f"pcm_{rate}": SoundFormat(Codec.PCM, rate) for rate in RAW_RATES},
        "ulaw_8000": SoundFormat(Codec.ULAW, 8_000),
        "alaw_8000": SoundFormat(Codec.ALAW, 8_000),
    }
)


class Encoder(Protocol):
    """Writes one file; used by one thread at a time."""

    def encode(self, samples: Samples) -> bytes:
        """Encode samples, float32 [N], and return what can be sent now; perhaps nothing."""

    def finish(self) -> bytes:
        """Return the rest of the file."""


def open_encoder(sound: SoundFormat, sample_rate: int, marking: Marking | None) -> Encoder:
    """Begin a file of unknown length, from samples at `sample_rate` Hz."""
    rate = sound.sample_rate
    if sound.codec is Codec.MP3:
        encoder: Encoder = _Mp3Encoder(sound, marking)
    elif sound.codec is Codec.OPUS:
        # Opus takes these rates as they are, and every player plays them at 48 kHz.
        rate = next((each for each in _OPUS_RATES if each >= sample_rate), rate)
        encoder = _FfmpegEncoder(replace(sound, sample_rate=rate), marking)
    elif sound.codec in _RECIPES:
        encoder = _FfmpegEncoder(sound, marking)
    else:
        is_wav = sound.codec is Codec.WAV
        encoder = PcmEncoder(begin_wav(rate, 1, marking) if is_wav else b"")
    return encoder if sample_rate == rate else _ResamplingEncoder(encoder, sample_rate, rate)


class PcmEncoder:
    """Writes samples as PCM of 16 bits, after a header if there is one."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def encode(self, samples: Samples) -> bytes:
        """Encode samples, float32 [N] or [N, channels]."""
        header, self._header = self._header, b""
        return header + to_pcm16(samples).tobytes()

    def finish(self) -> bytes:
        return self._header


class _Mp3Encoder:
    """Encodes with LAME itself: FFmpeg's package has one that takes three times as long."""

    def __init__(self, sound: SoundFormat, marking: Marking | None) -> None:
        # As with FFmpeg's libraries, raw formats do not need it.
        import lameenc  # noqa: PLC0415 - see above

        self._encoder = lameenc.Encoder()
        self._encoder.silence()
        self._encoder.set_channels(1)
        self._encoder.set_in_sample_rate(sound.sample_rate)
        self._encoder.set_out_sample_rate(sound.sample_rate)
        if sound.bit_rate is not None:
            self._encoder.set_bit_rate(sound.bit_rate // 1000)
        self._encoder.set_quality(_LAME_QUALITY)
        self._header = b"" if marking is None else id3_of(marking)

    def encode(self, samples: Samples) -> bytes:
        header, self._header = self._header, b""
        return header + bytes(self._encoder.encode(to_pcm16(samples).tobytes()))

    def finish(self) -> bytes:
        return self.encode(np.zeros(0, np.float32)) + bytes(self._encoder.flush())


@lru_cache(maxsize=64)
def id3_of(marking: Marking) -> bytes:
    import av  # noqa: PLC0415 - loading it takes long

    sink = _Sink()
    # The length that a Xing header states is not known when the file begins.
    options = {"fflags": "+bitexact", "id3v2_version": "3", "write_xing": "0"}
    with av.open(sink, mode="w", format="mp3", options=options) as file:
        file.metadata.update(tags_of(Codec.MP3, marking))
        file.add_stream("libmp3lame", rate=24_000, layout="mono")
        file.start_encoding()
        return sink.take()


class _ResamplingEncoder:
    """Resamples without seams between the pieces."""

    def __init__(self, encoder: Encoder, rate: int, new_rate: int) -> None:
        self._encoder = encoder
        self._stream = soxr.ResampleStream(
            rate, new_rate, 1, dtype="float32", quality=RESAMPLING_QUALITY
        )

    def encode(self, samples: Samples) -> bytes:
        return self._encoder.encode(self._stream.resample_chunk(samples))

    def finish(self) -> bytes:
        rest = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return self._encoder.encode(rest) + self._encoder.finish()


# Of LAME's 0 (slowest) to 9: at the rates of speech, the searches that it skips gain nothing.
_LAME_QUALITY: Final = 7
_OPUS_RATES: Final = (8_000, 12_000, 16_000, 24_000, 48_000)

# FFmpeg's muxer and codec of a format, and their options.
_RECIPES: Final[Mapping[Codec, FfmpegRecipe]] = {
    # Shaping noise in time costs an eighth of the time, and brings nothing at this rate.
    Codec.AAC: FfmpegRecipe(
        "adts", "aac", {"write_id3v2": "1"}, {"aac_coder": "fast", "aac_tns": "0"}
    ),
    Codec.OPUS: FfmpegRecipe(
        "ogg",
        "libopus",
        {"page_duration": "100000"},  # in microseconds, so that pages do not wait for each other
        {"application": "audio", "compression_level": "5"},
    ),
    Codec.FLAC: FfmpegRecipe("flac", "flac"),
    Codec.ULAW: FfmpegRecipe("mulaw", "pcm_mulaw"),
    Codec.ALAW: FfmpegRecipe("alaw", "pcm_alaw"),
}


class _Sink(io.RawIOBase):
    """A file that is only written; `take` empties it."""

    def __init__(self) -> None:
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        self._content += memoryview(cast("bytes", content))
        return len(memoryview(cast("bytes", content)))

    def take(self) -> bytes:
        content = bytes(self._content)
        self._content.clear()
        return content


class _FfmpegEncoder:
    def __init__(self, sound: SoundFormat, marking: Marking | None) -> None:
        self._sink = _Sink()
        self._encoder = FfmpegEncoder(
            self._sink,
            _RECIPES[sound.codec],
            {} if marking is None else tags_of(sound.codec, marking),
            input_rate=sound.sample_rate,
            rate=sound.sample_rate,
            bit_rate=sound.bit_rate,
        )

    def encode(self, samples: Samples) -> bytes:
        self._encoder.write(samples)
        return self._sink.take()

    def finish(self) -> bytes:
        self._encoder.finish()
        return self._sink.take()


def tags_of(codec: Codec, marking: Marking) -> dict[str, str]:
    tags = marking.tags()
    if codec in {Codec.MP3, Codec.AAC}:
        tags["id3v2_priv.XMP"] = marking.xmp().decode()
    return tags
