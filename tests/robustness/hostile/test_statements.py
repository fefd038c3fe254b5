"""Statements (C2PA) that somebody made to do harm end as invalid ones, and within limits."""

from __future__ import annotations

import struct
import time

import pytest

from shared.speech.results.credentials import WALL_SECONDS, Credentials, read_credentials_apart
from shared.voices.media import Container

HUGE = 0xFFFF_FFFF


def riff(chunk: bytes, size: int | None = None) -> bytes:
    """A WAV file with 100 samples and a chunk `C2PA` that claims a size."""
    sound = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16)
    sound += b"data" + struct.pack("<I", 200) + bytes(200)
    content = b"WAVE" + sound + b"C2PA" + struct.pack("<I", size or len(chunk)) + chunk
    return b"RIFF" + struct.pack("<I", len(content)) + content


def box(kind: bytes, content: bytes, size: int | None = None) -> bytes:
    return struct.pack(">I", size or 8 + len(content)) + kind + content


def nested(depth: int) -> bytes:
    """Boxes in boxes; each size is true."""
    description = box(b"jumd", b"c2pa" + bytes(12) + b"\x03c2pa\x00")
    content = description
    for _ in range(depth):
        content = box(b"jumb", description + content)
    return content


def mp4(content: bytes) -> bytes:
    return box(b"ftyp", b"M4A \0\0\0\0M4A ") + content


@pytest.mark.parametrize(
    ("data", "container"),
    [
        pytest.param(riff(b"", HUGE - 1), Container.WAV, id="a chunk of 4 GB"),
        pytest.param(riff(box(b"jumb", b"", HUGE)), Container.WAV, id="a box of 4 GB"),
        pytest.param(
            riff(struct.pack(">I4sQ", 1, b"jumb", (1 << 63) - 1)), Container.WAV, id="2^63 bytes"
        ),
        pytest.param(riff(nested(2_000)), Container.WAV, id="2000 boxes in boxes"),
        pytest.param(riff(box(b"jumb", bytes(5 << 20))), Container.WAV, id="5 MB of zeros"),
        pytest.param(
            mp4(struct.pack(">I4sQ", 1, b"uuid", (1 << 63) - 1)),
            Container.MP4,
            id="MP4, 2^63 bytes",
        ),
        pytest.param(mp4(box(b"free", b"") * 100_000), Container.MP4, id="100 000 boxes"),
        pytest.param(
            b"ID3\x04\x00\x00\x7f\x7f\x7f\x7fGEOB\x7f\x7f\x7f\x7f\0\0", Container.MP3, id="ID3 tag"
        ),
    ],
)
async def test_a_hostile_statement_ends_in_time(data: bytes, container: Container) -> None:
    begin = time.monotonic()

    found = await read_credentials_apart(data, container, "")

    assert found.state in {Credentials.INVALID, Credentials.MISSING}
    assert time.monotonic() - begin < WALL_SECONDS + 5
