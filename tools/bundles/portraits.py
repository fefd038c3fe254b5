"""Makes a portrait of a picture that a voice's owner has."""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageOps

from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.runtime.quoting import printable
from tools.bundles.files import VoiceFileError, read_file, run_apart

if TYPE_CHECKING:
    from pathlib import Path

MAX_PICTURE_BYTES: Final = 16 << 20
_LONGEST_SIDE: Final = 8_192
_PIXELS: Final = 256
_QUALITIES: Final = (88, 70, 50, 30)
_SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {0}">'
    '<image width="{0}" height="{0}" href="data:image/jpeg;base64,{1}"/></svg>\n'
)


def draw_portrait(picture: bytes, colour: str) -> bytes:
    """Make a portrait of a picture: an SVG that holds its middle, drawn anew.

    So the portrait is text, as the api's archive needs it, and nothing of the file remains but
    what can be seen.

    Args:
        colour: `#rrggbb`, behind what is transparent.
    """
    square = ImageOps.fit(_opened(picture), (_PIXELS, _PIXELS))
    ground = Image.new("RGBA", square.size, colour)
    ground.alpha_composite(square)
    flat = ground.convert("RGB")
    drawings = (svg(flat, quality) for quality in _QUALITIES)
    return next(drawing for drawing in drawings if len(drawing) <= MAX_PORTRAIT_BYTES)


def read_portrait(path: Path, colour: str) -> bytes:
    """Make a portrait of a picture that a person names, in a process of its own."""
    try:
        picture = read_file(path, MAX_PICTURE_BYTES)
        return run_apart(partial(draw_portrait, colour=colour), picture)
    except VoiceFileError as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def _opened(picture: bytes) -> Image.Image:
    with suppress(OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        opened = Image.open(io.BytesIO(picture), formats=("PNG", "JPEG"))
        if max(opened.size) <= _LONGEST_SIDE:
            return ImageOps.exif_transpose(opened).convert("RGBA")
    raise VoiceFileError(
        f"expected a picture, PNG or JPEG, of at most {_LONGEST_SIDE} pixels a side, found a larger"
        " one, a damaged one or another file."
    )


def svg(picture: Image.Image, quality: int) -> bytes:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=quality)
    return _SVG.format(_PIXELS, base64.b64encode(content.getvalue()).decode()).encode()
