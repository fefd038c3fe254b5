"""Containers and media types of recordings and results.

The first bytes of a recording tell its container (`sniff`), never the type that the client sent.
"""

from __future__ import annotations

import re
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shared.voices.voice import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

SNIFF_BYTES: Final = 65_536  # that `sniff` needs to look behind an ID3 tag
LONGEST_CONTENT_TYPE: Final = 200  # characters; recorders name a container and up to two codecs


class Container(StrEnum):
    WEBM = "webm"
    MATROSKA = "matroska"
    MP4 = "mp4"
    OGG = "ogg"
    WAV = "wav"
    MP3 = "mp3"
    FLAC = "flac"
    ADTS = "adts"


# The media types that name a container, the canonical one first. Some recorders label audio alone
# as video, and some label AAC in MP4 as audio/aac.
CONTENT_TYPES: Final[Mapping[Container, tuple[str, ...]]] = MappingProxyType(
    {
        Container.WEBM: ("audio/webm", "video/webm"),
        Container.MATROSKA: ("audio/x-matroska", "video/x-matroska", "audio/matroska"),
        Container.MP4: (
            *("audio/mp4", "audio/x-m4a", "audio/m4a", "audio/aac"),
            *("video/mp4", "video/quicktime"),
        ),
        Container.OGG: ("audio/ogg", "audio/opus", "video/ogg", "application/ogg"),
        Container.WAV: ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"),
        Container.MP3: ("audio/mpeg", "audio/mp3"),
        Container.FLAC: ("audio/flac", "audio/x-flac"),
        Container.ADTS: ("audio/aac", "audio/aacp"),
    }
)
ALLOWED_UPLOADS: Final = frozenset(name for names in CONTENT_TYPES.values() for name in names)

# Names of files that look like sound; of those that cannot be decoded, the decoder says why.
SOUND_SUFFIXES: Final = frozenset(
    (
        *(".3g2", ".3ga", ".3gp", ".aac", ".ac3", ".aif", ".aifc", ".aiff", ".alac", ".amr"),
        *(".ape", ".au", ".avi", ".awb", ".caf", ".dsf", ".flac", ".flv", ".g722", ".gsm"),
        *(".m2ts", ".m4a", ".m4b", ".m4r", ".m4v", ".mka", ".mkv", ".mov", ".mp2", ".mp3"),
        *(".mp4", ".mpeg", ".mpg", ".mts", ".oga", ".ogg", ".ogv", ".opus", ".ra", ".rm"),
        *(".snd", ".spx", ".tta", ".vob", ".wav", ".wave", ".weba", ".webm", ".wma", ".wmv"),
        ".wv",
    )
)
TEXT_CONTENT_TYPE: Final = "text/plain; charset=utf-8"  # of a voice's text in the uploads bucket
# The media type of a recording that we have emptied; no visitor's may have it.
EMPTY_CONTENT_TYPE: Final = "application/octet-stream"

_MATROSKA_FAMILY: Final = frozenset({Container.WEBM, Container.MATROSKA})
_MAGIC: Final = (
    (0, b"OggS", Container.OGG),
    (0, b"fLaC", Container.FLAC),
    (8, b"WAVE", Container.WAV),
    # QuickTime before 2001 has no `ftyp`.
    *((4, box, Container.MP4) for box in (b"ftyp", b"moov", b"mdat")),
)


class UnsupportedContentTypeError(ValueError):
    pass


def parse_content_type(text: str) -> str:
    """Return the media type of a recording in lower case and without parameters.

    The message of `UnsupportedContentTypeError` lists the types that recordings may have.
    """
    media_type = _media_type(text)
    if media_type not in ALLOWED_UPLOADS:
        raise UnsupportedContentTypeError(
            f"{text[:80]!r} is not a content type that recordings may have; "
            f"use one of {', '.join(sorted(ALLOWED_UPLOADS))}"
        )
    return media_type


def content_type_matches(container: Container, content_type: str) -> bool:
    """Return whether a content type names a container.

    WebM is a kind of Matroska, and only a name inside the file distinguishes the two, so the types
    of both match both.
    """
    media_type = _media_type(content_type)
    family = _MATROSKA_FAMILY if container in _MATROSKA_FAMILY else {container}
    return any(media_type in CONTENT_TYPES[member] for member in family)


def _media_type(text: str) -> str:
    """Return the media type without parameters; an empty text if `text` is no valid header."""
    is_header = len(text) <= LONGEST_CONTENT_TYPE and text.isascii() and text.isprintable()
    return text.partition(";")[0].strip().lower() if is_header else ""


def result_content_type(output_format: OutputFormat) -> str:
    is_m4a = output_format is OutputFormat.M4A
    return CONTENT_TYPES[Container.MP4 if is_m4a else Container(output_format.value)][0]


def result_extension(output_format: OutputFormat) -> str:
    return f".{output_format.value}"


def sniff(head: bytes) -> Container | None:
    """Return the container of a recording that begins with `head` (`SNIFF_BYTES` are enough)."""
    if head.startswith(b"ID3"):
        return _sniff_behind_id3(head)
    if found := _sniff_begin(head):
        return found
    begin = find_stream(head)
    return _sniff_begin(head[begin:]) if begin else None


def find_stream(data: bytes) -> int:
    """Return where a recording begins: radio streams and cut files have something before it.

    That may be zeros, the answer of a radio station, or the end of a frame whose beginning is
    missing. Returns 0 if the recording begins at once, or none is found.
    """
    head = data[:SNIFF_BYTES]
    if head.startswith(b"ID3") or _sniff_begin(head):
        return 0
    begin = len(head) - len(head.lstrip(b"\0"))
    if head.startswith(b"ICY", begin) and (end := head.find(b"\r\n\r\n", begin)) >= 0:
        begin = end + 4
    if _sniff_begin(head[begin:]):
        return begin
    frames = (at.start() for at in _SYNC.finditer(head, begin))
    return next((at for at in frames if _has_frames(head, at)), 0)


def _sniff_begin(head: bytes) -> Container | None:
    if head.startswith(b"\x1aE\xdf\xa3"):
        return Container.WEBM if b"\x42\x82\x84webm" in head[:64] else Container.MATROSKA
    for offset, magic, container in _MAGIC:
        if head.startswith(magic, offset) and (
            container is not Container.WAV or head.startswith((b"RIFF", b"RF64"))
        ):
            return container
    # Texts may have these words, but do not begin with zero, as the size of such a box does.
    if head.startswith(b"\0") and head[4:8] in {b"wide", b"free", b"skip", b"pnot"}:
        return Container.MP4
    return _sniff_mpeg_frame(head)


def _sniff_behind_id3(head: bytes) -> Container:
    tag_size = 0
    for byte in head[6:10]:
        tag_size = tag_size << 7 | byte & 0x7F
    rest = head[10 + tag_size :]
    if rest.startswith(b"fLaC"):
        return Container.FLAC
    # Only a tag with cover art is longer than the head, and files with such a tag are MP3.
    return _sniff_mpeg_frame(rest) or Container.MP3


def _sniff_mpeg_frame(head: bytes) -> Container | None:
    """Recognise an MPEG audio frame header (ISO/IEC 11172-3, 13818-3; ADTS: 13818-7)."""
    if len(head) < 4 or head[0] != 0xFF:  # noqa: PLR2004 - a header's length and sync byte
        return None
    version_and_layer, rates = head[1], head[2]
    if version_and_layer & 0xF6 == 0xF0:  # noqa: PLR2004 - 12 sync bits, layer always 0
        return Container.ADTS
    is_layer_3 = version_and_layer & 0xE6 == 0xE2  # noqa: PLR2004 - 11 sync bits, layer bits 01
    version_is_reserved = version_and_layer & 0x18 == 0x08  # noqa: PLR2004
    rates_are_valid = rates & 0xF0 not in {0x00, 0xF0} and rates & 0x0C != 0x0C  # noqa: PLR2004
    return Container.MP3 if is_layer_3 and not version_is_reserved and rates_are_valid else None


_SYNC: Final = re.compile(rb"\xff[\xe0-\xff]")
_FRAMES: Final = 3  # so many that follow each other are no chance
_KILOBITS: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KILOBITS_2: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)


def _has_frames(head: bytes, at: int) -> bool:
    kind = _sniff_mpeg_frame(head[at : at + 4])
    if kind is None:
        return False
    for _ in range(_FRAMES - 1):
        length = _frame_length(head[at : at + 7], kind)
        at += length
        if length == 0 or _sniff_mpeg_frame(head[at : at + 4]) is not kind:
            return False
    return True


def _frame_length(header: bytes, kind: Container) -> int:
    if kind is Container.ADTS:
        length = int.from_bytes(header[3:6], "big") >> 5 & 0x1FFF if len(header) >= 6 else 0  # noqa: PLR2004
        return length if length > 7 and header[2] >> 2 & 0xF < 13 else 0  # noqa: PLR2004 - its header; rates
    is_first = header[1] & 0x18 == 0x18  # noqa: PLR2004 - MPEG-1; the others have half the samples
    halvings = {0x18: 0, 0x10: 1, 0x00: 2}[header[1] & 0x18]
    rate = (44_100, 48_000, 32_000)[header[2] >> 2 & 3] >> halvings
    kilobits = (_KILOBITS if is_first else _KILOBITS_2)[header[2] >> 4]
    return (144_000 if is_first else 72_000) * kilobits // rate + (header[2] >> 1 & 1)
