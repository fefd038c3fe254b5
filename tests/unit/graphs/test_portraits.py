import base64
import struct
import zlib

import pytest

from functions.compat.voicevox.speakers import plain_png
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.speech.graphs.portraits import PictureError, check_picture, check_portrait, picture_in

PNG = plain_png("#d9487c")
FRAME = b"\xff\xc0\x00\x0b\x08\x00\x40\x00\x20\x01\x01\x11\x00"
SCAN = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x12\xff\x00\x34\xff\xd0\x56"
JPEG = b"\xff\xd8" + FRAME + SCAN + b"\xff\xd9"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><image {}/></svg>'


def part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int) -> bytes:
    return part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def png(*parts: bytes) -> bytes:
    return PNG[:8] + b"".join(parts) + part(b"IEND", b"")


def portrait(address: str) -> bytes:
    return SVG.format(f'href="{address}" width="8" height="8"').encode()


def refuse(portrait: bytes, sentence: str) -> None:
    with pytest.raises(BundleError, match=sentence) as refused:
        check_portrait("face.svg", portrait)
    assert str(refused.value).isprintable()


DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{}</svg>'


@pytest.mark.parametrize(
    "declaration",
    [
        "",
        "<?xml version='1.0' encoding='utf-8' ?>",
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>',
    ],
)
def test_a_static_drawing_in_utf_8_is_accepted_as_a_portrait(declaration: str) -> None:
    drawing = DRAWING.format('<circle cx="4" cy="4" r="3" fill="url(#a)"/>')

    check_portrait("face.svg", f"{declaration}\n{drawing}".encode())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (DRAWING.format("<script>alert(1)</script>"), "found 'script'"),
        (DRAWING.format('<circle onclick="alert(1)"/>'), "found 'onclick'"),
        (DRAWING.format('<use href="https://example.org/a.svg"/>'), "found 'use'"),
        (DRAWING.format('<path fill="url(https://example.org/)"/>'), "no address outside"),
        (DRAWING.format("<foreignObject/>"), "found 'foreignObject'"),
        (DRAWING.format("<style>@import 'x'</style>"), "found 'style'"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>" + DRAWING, "found a declaration"),
        ("<?xml-stylesheet href='a.xsl'?>" + DRAWING, "found a declaration"),
        ("<svg/>", "found the element 'svg'"),
        ("no picture", "expected an SVG, found"),
        (" " * (MAX_PORTRAIT_BYTES + 1), "expected at most"),
        # Names out of the file are quoted.
        (DRAWING.format("<a\u200db/>"), "found"),
        (DRAWING.format('<path d\u200d="1"/>'), "found"),
        (DRAWING.format('<path fill="url(x&#10;&#x2028;&#x202e;)"/>'), r"x\\n\\u2028\\u202e"),
        (DRAWING.format('<image href="&#10;&#x2028;"/>'), r"\\n\\u2028"),
        (DRAWING.format("<b>&\u202e;</b>"), "found"),
    ],
)
def test_a_portrait_that_is_more_than_a_drawing_is_refused(content: str, sentence: str) -> None:
    refuse(content.encode(), sentence)


@pytest.mark.parametrize(
    ("said", "encoding"),
    [
        ("", "utf-16"),
        ("", "utf-16-le"),
        ("", "latin-1"),
        ('<?xml version="1.0" encoding="utf-16"?>', "utf-8"),
        ('<?xml version="1.0" encoding="utf-8x"?>', "utf-8"),
    ],
)
def test_a_portrait_in_another_encoding_is_refused(said: str, encoding: str) -> None:
    umlaut = "ä" if encoding == "latin-1" else ""
    entities = "<!DOCTYPE svg [<!ENTITY a 'b'>]>" if not said else ""
    content = f"{said}{entities}{DRAWING.format(f'<title>{umlaut}</title>')}"

    refuse(content.encode(encoding), "in UTF-8")


@pytest.mark.parametrize(("kind", "content"), [("png", PNG), ("jpeg", JPEG)])
def test_a_portrait_may_hold_a_picture(kind: str, content: bytes) -> None:
    held = portrait(f"data:image/{kind};base64,{base64.b64encode(content).decode()}")

    check_portrait("face.svg", held)
    assert picture_in(held) == content


@pytest.mark.parametrize(
    ("kind", "content", "found"),
    [
        ("png", JPEG, "no PNG"),
        ("jpeg", PNG, "no JPEG"),
        ("png", PNG + b"<script>", "something behind it"),
        ("jpeg", JPEG + b"<script>", "something behind it"),
        ("png", png(header(8, 8), part(b"tEXt", b"a secret")), "the part b'tEXt'"),
        ("jpeg", JPEG[:2] + b"\xff\xe1\x00\x04Ex" + JPEG[2:], "the part 0xe1"),
        ("jpeg", JPEG[:2] + b"\xff\xfe\x00\x04hi" + JPEG[2:], "the part 0xfe"),
        ("png", PNG[:50] + b"?" + PNG[51:], "damaged"),
        ("jpeg", JPEG[:2] + b"?" + JPEG[2:], "damaged"),
        ("png", PNG[:-6], "ends too soon"),
        ("jpeg", JPEG[:-2], "ends too soon"),
        ("jpeg", JPEG[:9], "ends too soon"),
        ("png", png(), "without its header"),
        ("png", png(header(8, 8), header(8, 8)), "without its header"),
        ("jpeg", b"\xff\xd8\xff\xd9", "without its header"),
        ("jpeg", JPEG[:2] + FRAME + FRAME + b"\xff\xd9", "without its header"),
        ("png", png(header(1_025, 8)), "1025 x 8 pixels"),
        ("png", png(header(8, 0)), "8 x 0 pixels"),
    ],
)
def test_what_is_more_or_less_than_a_picture_is_refused(
    kind: str, content: bytes, found: str
) -> None:
    with pytest.raises(PictureError, match=found):
        check_picture(kind, content)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/face.png",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:image/png;base64,A",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,AAAA, https://example.org",
        "#face",
    ],
)
def test_an_image_without_a_picture_of_its_own_is_refused(address: str) -> None:
    refuse(portrait(address), "expected an image that holds a PNG or JPEG itself")
