"""Portraits: checks that an SVG is a static drawing, or holds a picture."""

import base64
import binascii
import re
from xml.etree import ElementTree as ET

from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.process.quoting import printable, quoted
from speech.bundles.files import BundleError
from speech.bundles.pictures import PictureError, check_picture

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
    """Refuse an SVG that is more than a static drawing.

    Only elements and attributes that draw are allowed; references may only name parts of the same
    drawing. An `image` holds its picture, PNG or JPEG, itself.

    Args:
        file: its name, for errors.
        content: of the file.

    Raises:
        BundleError: it is too large, not an SVG, or contains more than a drawing.
    """
    if len(content) > MAX_PORTRAIT_BYTES:
        raise BundleError(
            f"{file}: expected at most {MAX_PORTRAIT_BYTES} bytes, found {len(content)}."
        )
    drawing = _text(file, content)
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


def _text(file: str, content: bytes) -> str:
    """Return a file's text without its XML declaration, which may only name UTF-8."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(f"{file}: expected an SVG in UTF-8, found {error}.") from error
    if "\0" in text:
        raise BundleError(f"{file}: expected an SVG in UTF-8, found a NUL.")
    declaration = _DECLARATION.match(text)
    return text[declaration.end() :] if declaration else text


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
