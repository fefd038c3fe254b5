"""What was made in this visit, and what visitors take away from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.sounds import MICROPHONE_RATE, decode, median_pitch
from tests.browser.visitor import CONVERSION_MILLISECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints


def test_everything_that_was_made_can_be_played_saved_and_deleted(
    open_page: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = open_page()
    page = visitor.page
    page.check("[name=character][value=mei]", force=True)
    visitor.speak(seconds=3)
    visitor.wait_for("done")
    first = visitor.voice_id()
    page.check("[name=character][value=ned]", force=True)
    page.click("#convert-again")
    # Nobody may be in time to see that it is busy.
    expect(page.locator("h1")).to_have_text("You, as Ned.", timeout=CONVERSION_MILLISECONDS)
    visitor.wait_until_played()
    names = page.locator(".made > span").all_inner_texts()
    assert [name.split(",")[0] for name in names] == ["Ned", "Mei"]

    page.click(".made:nth-child(2) .play-one")
    page.wait_for_selector(".made:nth-child(2).playing")
    with page.expect_download() as waiting:
        page.click(".made:nth-child(2) a")
    saved = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(saved)
    assert re.fullmatch(r"mei-\d{4}-\d\d-\d\d-\d{6}\.mp3", saved.name)
    assert median_pitch(decode(saved)) > 250

    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.click(".made:nth-child(2) .danger-text")
    page.wait_for_function("document.querySelectorAll('.made').length === 1")
    gone = httpx.get(f"{cloud.api}/api/v1/conversion/{first}", timeout=60)
    assert gone.status_code == 404
    # What is shown is the other one.
    assert visitor.text("h1") == "You, as Ned."
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.click("#delete")
    visitor.wait_for("start")
    assert not page.is_visible("#visit")


def test_a_result_is_saved_as_wav_with_its_statement(open_page: OpenPage, tmp_path: Path) -> None:
    visitor = open_page()
    page = visitor.page
    page.check("[name=character][value=mei]", force=True)
    visitor.speak(seconds=3)
    visitor.wait_for("done")
    mp3 = visitor.download(tmp_path)
    with page.expect_download() as waiting:
        page.click("#download-wav")
    wav = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(wav)

    assert (wav.stem, wav.suffix) == (mp3.stem, ".wav")
    ours, theirs = decode(wav), decode(mp3)
    assert len(ours) / MICROPHONE_RATE == pytest.approx(len(theirs) / MICROPHONE_RATE, abs=0.1)
    assert median_pitch(ours) == pytest.approx(median_pitch(theirs), rel=0.01)
    assert b"Synthetic speech, converted to the voice of Mei." in wav.read_bytes()
