"""Pictures inside of portraits: checks that a PNG or JPEG holds pixels and nothing else.

Nothing is decoded: the parts of the file are looked at one after the other. Parts that only carry
other data, such as comments and camera data, are refused.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PIXELS: Final = 1024
"""The longest side of a picture."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_PARTS: Final = frozenset(
    {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"pHYs"}
)
_JPEG: Final = b"\xff\xd8"
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_FRAMES: Final = (0xC0, 0xC1, 0xC2)
# Tables for quantisation, Huffman codes and restarts, and the headers of JFIF and Adobe.
_JPEG_PARTS: Final = frozenset({0xDB, 0xC4, 0xDD, 0xE0, 0xEE, *_FRAMES, _START_OF_SCAN})


class PictureError(ValueError):
    """No picture, or more than one; the message says in a few words what was found."""


def check_picture(kind: str, content: bytes) -> None:
    """Refuse what is more than a picture of one of two kinds.

    Args:
        kind: `png` or `jpeg`.
        content: the picture.

    Raises:
        PictureError: it is of another kind, malformed, too large, or carries other data.
    """
    try:
        width, height = _png_size(content) if kind == "png" else _jpeg_size(content)
    except (struct.error, IndexError) as error:
        raise PictureError("a picture that ends too soon") from error
    if not (1 <= width <= MOST_PIXELS and 1 <= height <= MOST_PIXELS):
        raise PictureError(f"{width} x {height} pixels, more than {MOST_PIXELS}")


def _png_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a PNG (ISO/IEC 15948)."""
    if not content.startswith(_PNG):
        raise PictureError("no PNG")
    parts = list(_png_parts(content))
    if not parts or parts[0][0] != b"IHDR" or [kind for kind, _ in parts].count(b"IHDR") != 1:
        raise PictureError("a PNG without its header")
    width, height = struct.unpack_from(">II", parts[0][1])
    return width, height


def _png_parts(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    position, kind = len(_PNG), b""
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", content, position)
        kind = content[position + 4 : position + 8]
        data = content[position + 8 : position + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, position + 8 + length)
        if kind not in _PNG_PARTS:
            raise PictureError(f"a PNG with the part {kind!r}")
        if zlib.crc32(kind + data) != checksum:
            raise PictureError("a damaged PNG")
        yield kind, data
        position += 12 + length
    if position != len(content):
        raise PictureError("a PNG with something behind it")


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a JPEG (ITU-T T.81)."""
    if not content.startswith(_JPEG):
        raise PictureError("no JPEG")
    sizes = [
        struct.unpack_from(">HH", content, position + 5)
        for marker, position in _jpeg_parts(content)
        if marker in _FRAMES
    ]
    if len(sizes) != 1:
        raise PictureError("a JPEG without its header")
    height, width = sizes[0]
    return width, height


def _jpeg_parts(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the marker and the position of each part but the end."""
    position = len(_JPEG)
    while (marker := _marker(content, position)) != _END_OF_IMAGE:
        if marker not in _JPEG_PARTS:
            raise PictureError(f"a JPEG with the part {marker:#04x}")
        yield marker, position
        (length,) = struct.unpack_from(">H", content, position + 2)
        position += 2 + max(length, 2)
        if marker == _START_OF_SCAN:
            position = _end_of_scan(content, position)
    if position + 2 != len(content):
        raise PictureError("a JPEG with something behind it")


def _marker(content: bytes, position: int) -> int:
    if content[position] != 0xFF:  # noqa: PLR2004 - every marker begins with it
        raise PictureError("a damaged JPEG")
    return content[position + 1]


def _end_of_scan(content: bytes, position: int) -> int:
    """Find the marker behind coded pixels, in which 255 is followed by 0 or by a restart."""
    while True:
        position = content.find(b"\xff", position)
        if position < 0:
            raise PictureError("a picture that ends too soon")
        if content[position + 1] != 0 and not 0xD0 <= content[position + 1] <= 0xD7:  # noqa: PLR2004
            return position
        position += 2
