"""Portraits: checks that an SVG is a static drawing, or holds a picture."""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.runtime.quoting import printable, quoted

MOST_PIXELS: Final = 1024  # the longest side of a picture

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
    """A file is not exactly one picture; the message says in a few words what was found."""


def check_picture(kind: str, content: bytes) -> None:
    """Raise PictureError for a file that is more than a picture of one kind, `png` or `jpeg`."""
    try:
        width, height = png_size(content) if kind == "png" else jpeg_size(content)
    except (struct.error, IndexError) as error:
        raise PictureError("a picture that ends too soon") from error
    if not (1 <= width <= MOST_PIXELS and 1 <= height <= MOST_PIXELS):
        raise PictureError(f"{width} x {height} pixels, more than {MOST_PIXELS}")


def png_size(content: bytes) -> tuple[int, int]:
    if not content.startswith(_PNG):
        raise PictureError("no PNG")
    parts = list(png_parts(content))
    if not parts or parts[0][0] != b"IHDR" or [kind for kind, _ in parts].count(b"IHDR") != 1:
        raise PictureError("a PNG without its header")
    width, height = struct.unpack_from(">II", parts[0][1])
    return width, height


def png_parts(content: bytes) -> Iterator[tuple[bytes, bytes]]:
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


def jpeg_size(content: bytes) -> tuple[int, int]:
    if not content.startswith(_JPEG):
        raise PictureError("no JPEG")
    sizes = [
        struct.unpack_from(">HH", content, position + 5)
        for marker, position in jpeg_parts(content)
        if marker in _FRAMES
    ]
    if len(sizes) != 1:
        raise PictureError("a JPEG without its header")
    height, width = sizes[0]
    return width, height


def jpeg_parts(content: bytes) -> Iterator[tuple[int, int]]:
    position = len(_JPEG)
    while (marker := _marker(content, position)) != _END_OF_IMAGE:
        if marker not in _JPEG_PARTS:
            raise PictureError(f"a JPEG with the part {marker:#04x}")
        yield marker, position
        (length,) = struct.unpack_from(">H", content, position + 2)
        position += 2 + max(length, 2)
        if marker == _START_OF_SCAN:
            position = end_of_scan(content, position)
    if position + 2 != len(content):
        raise PictureError("a JPEG with something behind it")


def _marker(content: bytes, position: int) -> int:
    if content[position] != 0xFF:  # noqa: PLR2004 - every marker begins with it
        raise PictureError("a damaged JPEG")
    return content[position + 1]


def end_of_scan(content: bytes, position: int) -> int:
    """Find the marker behind coded pixels, in which 255 is followed by 0 or by a restart."""
    while True:
        position = content.find(b"\xff", position)
        if position < 0:
            raise PictureError("a picture that ends too soon")
        if content[position + 1] != 0 and not 0xD0 <= content[position + 1] <= 0xD7:  # noqa: PLR2004
            return position
        position += 2


_DECLARATION = re.compile(
    r"""<\?xml\s+version=["']1\.0["'](\s+encoding=["'](?i:utf-8)["'])?"""
    r"""(\s+standalone=["'](yes|no)["'])?\s*\?>"""
)
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset(
    {
        *("svg", "title", "desc", "g", "defs", "clipPath", "mask"),
        *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan"),
        *("linearGradient", "radialGradient", "stop", "image"),
    }
)
_ATTRIBUTES = frozenset(
    {
        *("id", "version", "role", "aria-label", "viewBox", "preserveAspectRatio", "transform"),
        *("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "dx", "dy", "fx", "fy", "r", "rx", "ry"),
        *("width", "height", "d", "points", "offset", "opacity", "mask"),
        *("fill", "fill-opacity", "fill-rule", "clip-path", "clip-rule", "clipPathUnits"),
        *("stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin"),
        *("stroke-miterlimit", "stroke-opacity", "stroke-width", "stop-color", "stop-opacity"),
        *("gradientTransform", "gradientUnits", "spreadMethod"),
        *("font-family", "font-size", "font-weight", "text-anchor"),
    }
)
_PICTURE = re.compile(r"data:image/(png|jpeg);base64,([A-Za-z0-9+/=]*)")


def check_portrait(file: str, content: bytes) -> None:
    """Raise BundleError for an SVG that is more than a static drawing.

    Only elements and attributes that draw are allowed; references may only name parts of the same
    drawing. An `image` holds its picture, PNG or JPEG, itself.
    """
    if len(content) > MAX_PORTRAIT_BYTES:
        raise BundleError(
            f"{file}: expected at most {MAX_PORTRAIT_BYTES} bytes, found {len(content)}."
        )
    try:
        drawing = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(f"{file}: expected an SVG in UTF-8, found {error}.") from error
    if "\0" in drawing:
        raise BundleError(f"{file}: expected an SVG in UTF-8, found a NUL.")
    # The declaration may only name UTF-8.
    if declaration := _DECLARATION.match(drawing):
        drawing = drawing[declaration.end() :]
    # Checked before parsing: entities and processing instructions can attack the parser.
    if "<!" in drawing or "<?" in drawing:
        raise BundleError(
            f"{file}: expected a plain SVG in UTF-8, found a declaration or a comment."
        )
    try:
        root = ET.fromstring(drawing)  # noqa: S314 - no entities, see above
    except (ET.ParseError, ValueError) as error:
        raise BundleError(f"{file}: expected an SVG, found {printable(str(error))}.") from error
    if root.tag != f"{_NAMESPACE}svg":
        raise BundleError(f"{file}: expected an SVG, found the element {quoted(root.tag)}.")
    for element in root.iter():
        _check_element(file, element)


def picture_in(portrait: bytes) -> bytes | None:
    """Return the picture that a checked portrait holds; None if it is a drawing without one."""
    found = _PICTURE.search(portrait.decode())
    return None if found is None else base64.b64decode(found[2])


def _check_element(file: str, element: ET.Element) -> None:
    tag = element.tag.removeprefix(_NAMESPACE)
    if tag not in _ELEMENTS:
        raise BundleError(f"{file}: expected only elements that draw, found {quoted(tag)}.")
    for name, value in element.attrib.items():
        if (tag, name) == ("image", "href"):
            _check_picture(file, value)
            continue
        if name not in _ATTRIBUTES:
            raise BundleError(f"{file}: expected only attributes that draw, found {quoted(name)}.")
        own_parts = value.replace("url(#", "")
        if "url(" in own_parts.lower() or "\\" in own_parts or "/*" in own_parts:
            raise BundleError(
                f"{file}: attribute {quoted(name)}: expected no address outside of the drawing,"
                f" found {quoted(value)}."
            )


def _check_picture(file: str, address: str) -> None:
    expected = f"{file}: expected an image that holds a PNG or JPEG itself"
    found = _PICTURE.fullmatch(address)
    if found is None:
        raise BundleError(f"{expected}, found {quoted(address)}.")
    try:
        check_picture(found[1], base64.b64decode(found[2], validate=True))
    except (PictureError, binascii.Error) as error:
        raise BundleError(f"{expected}, found {error}.") from error
