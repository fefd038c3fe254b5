"""A video clip of a result: recorded in the browser, and still known as made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np
from playwright.sync_api import expect

from shared.characters.manifest import read_manifest
from tests.browser.endpoints import ROOT
from tests.browser.sounds import decode
from tests.browser.test_verifying import ask

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.sounds import Samples

_RATE = 16_000
_MOUTH = (125, 35, 56)
_FACE = (130, 860)
"""Top and size of the portrait in a tall clip, in pixels."""


def test_a_clip_shows_a_face_that_speaks_and_carries_the_sound_with_its_watermark(
    open_page: OpenPage, tmp_path: Path
) -> None:
    visitor = open_page()
    visitor.speak(seconds=4)
    visitor.wait_for("done")
    result = visitor.download(tmp_path)
    page = visitor.page
    page.click("#clip summary")

    page.click("#clip [data-shape=tall]")
    expect(page.locator("#clip-status")).to_contain_text("Recording the clip")
    with page.expect_download(timeout=60_000) as waiting:
        page.click("#clip-save", timeout=60_000)
    clip = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(clip)

    assert clip.name.startswith("hina-")
    pictures = pictures_of(clip)
    assert {picture.shape for picture in pictures} == {(1920, 1080, 3)}
    assert len(pictures) > 20
    mouths = [mouth_pixels(picture) for picture in pictures]
    assert max(mouths) > 100
    assert min(mouths) < 0.2 * max(mouths)
    closed = [eyes_are_closed(picture, *_FACE) for picture in pictures]
    assert 0 < sum(closed) < 0.2 * len(closed)
    assert likeness(decode(clip, _RATE), decode(result, _RATE)) > 0.9
    assert ask(visitor, clip) == "copy"


def pictures_of(clip: Path) -> list[np.ndarray]:
    """Return the pictures, uint8 [height, width, 3] each."""
    with av.open(str(clip)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def mouth_pixels(picture: np.ndarray) -> int:
    """Count the pixels of an open mouth's colour."""
    distance = np.abs(picture.astype(np.int16) - np.array(_MOUTH, np.int16)).max(axis=2)
    return int((distance < 24).sum())


def eyes_are_closed(picture: np.ndarray, top: int, size: int) -> bool:
    """Look whether skin is where Hina's right eye is, and not its pupil."""
    face = read_manifest(ROOT / "characters" / "hina").preview.face
    assert face is not None
    x = round((1080 - size) / 2 + size * face.eyes[0].x)
    y = round(top + size * face.eyes[0].y)
    skin = [int(face.skin[at : at + 2], 16) for at in (1, 3, 5)]
    seen = picture[y - 3 : y + 3, x - 3 : x + 3].mean(axis=(0, 1))
    return bool(np.abs(seen - skin).max() < 40)


def likeness(heard: Samples, expected: Samples) -> float:
    """Return the largest normalised correlation at any delay."""
    size = len(heard) + len(expected)
    product = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(expected, size))
    energies = float(np.square(heard).sum() * np.square(expected).sum())
    return float(np.fft.irfft(product, size).max() / np.sqrt(energies))
