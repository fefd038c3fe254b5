from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.speech.graphs.portraits import check_portrait, picture_in
from tools.bundles.files import VoiceFileError
from tools.bundles.portraits import draw_portrait


def picture(kind: str = "PNG", size: tuple[int, int] = (300, 200), mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    # The same in every process: pytest names tests by short contents.
    noise = np.random.default_rng(7).integers(0, 256, (size[1], size[0]), np.uint8)
    Image.fromarray(noise).convert(mode).save(content, kind, comment=b"a secret")
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        picture(),
        picture("JPEG"),
        picture(mode="RGBA"),
        picture(mode="P"),
        picture("JPEG", mode="CMYK"),
        picture(size=(1, 3)),
    ],
)
def test_a_picture_becomes_a_portrait_that_a_bundle_may_have(content: bytes) -> None:
    portrait = draw_portrait(content, "#5b6abf")

    check_portrait("portrait.svg", portrait)
    drawn = picture_in(portrait)
    assert drawn is not None
    assert Image.open(io.BytesIO(drawn)).size == (256, 256)
    assert len(portrait) <= MAX_PORTRAIT_BYTES
    assert b"a secret" not in drawn


def test_what_is_transparent_has_the_character_s_colour() -> None:
    content = io.BytesIO()
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(content, "PNG")
    drawn = picture_in(draw_portrait(content.getvalue(), "#ff0000"))

    assert drawn is not None
    red, green, blue = np.asarray(Image.open(io.BytesIO(drawn))).mean((0, 1))
    assert red > 250
    assert max(green, blue) < 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n....",
        picture()[:400],
        picture("GIF"),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        picture(size=(8_193, 1)),
    ],
)
def test_what_is_no_usable_picture_is_refused_in_one_sentence(content: bytes) -> None:
    with pytest.raises(VoiceFileError, match=r"^expected a picture, PNG or JPEG, .* file\.$"):
        draw_portrait(content, "#5b6abf")
