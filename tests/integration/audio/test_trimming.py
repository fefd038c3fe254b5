"""Hidden samples are removed by hand as FFmpeg itself would remove them."""

from __future__ import annotations

import io
import struct

import av
import pytest

from shared.speech.decoding.demuxing import Demuxer
from shared.voices.media import Container
from tests.integration.audio.recordings import FLAVOURS, recording


def samples_by_ffmpeg(data: bytes) -> int:
    """How many samples FFmpeg returns if it removes the hidden ones."""
    with av.open(io.BytesIO(data), mode="r") as source:
        return sum(frame.samples for frame in source.decode(source.streams.audio[0]))


def samples_by_us(data: bytes, container: Container) -> int:
    demuxer = Demuxer(data, container)
    for _ in demuxer.chunks(10.0, 1 << 24):
        pass
    return demuxer.samples


@pytest.mark.parametrize("name", FLAVOURS)
def test_every_container_has_the_same_samples_hidden(name: str) -> None:
    data = recording(name, 1.5, 44_100)

    assert samples_by_us(data, FLAVOURS[name].container) == samples_by_ffmpeg(data)


@pytest.mark.parametrize(
    ("begin", "milliseconds"), [(0, 2_000), (1_024, 500), (5_000, 1_000), (48_000, 2_000)]
)
def test_an_edit_list_hides_the_same_samples(begin: int, milliseconds: int) -> None:
    data = bytearray(recording("m4a file"))
    struct.pack_into(">Ii", data, data.index(b"elst") + 12, milliseconds, begin)
    edited = bytes(data)

    assert samples_by_us(edited, Container.MP4) == samples_by_ffmpeg(edited)
