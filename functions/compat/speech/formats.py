"""The formats in which clients can ask for sound."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Codec(StrEnum):
    """How samples are written."""

    PCM = "pcm"
    ULAW = "ulaw"
    ALAW = "alaw"
    WAV = "wav"
    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"


CONTENT_TYPES: Final = {
    Codec.PCM: "audio/pcm",
    Codec.ULAW: "audio/basic",
    Codec.ALAW: "audio/x-alaw-basic",
    Codec.WAV: "audio/wav",
    Codec.MP3: "audio/mpeg",
    Codec.OPUS: "audio/ogg",
    Codec.AAC: "audio/aac",
    Codec.FLAC: "audio/flac",
}


@dataclass(frozen=True, slots=True)
class SoundFormat:
    """A format of one channel.

    Attributes:
        codec: how samples are written. PCM has 16 bits, little-endian, without a header; mu-law
            and A-law are those of telephones (ITU-T G.711), without a header.
        sample_rate: in Hz; Opus is always at 48 kHz.
        bit_rate: in bits a second; None for codecs that have none.
    """

    codec: Codec
    sample_rate: int
    bit_rate: int | None = None

    @property
    def bytes_per_second(self) -> int:
        """How many bytes a second takes in PCM, mu-law or A-law."""
        return self.sample_rate * (2 if self.codec is Codec.PCM else 1)

    @property
    def content_type(self) -> str:
        """The media type."""
        return CONTENT_TYPES[self.codec]


RAW_RATES: Final = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

FORMATS_WITHOUT_FILE: Final[Mapping[str, SoundFormat]] = MappingProxyType(
    {
        **{f"pcm_{rate}": SoundFormat(Codec.PCM, rate) for rate in RAW_RATES},
        "ulaw_8000": SoundFormat(Codec.ULAW, 8_000),
        "alaw_8000": SoundFormat(Codec.ALAW, 8_000),
    }
)
"""Formats without header and end, by the names that clients give them."""
