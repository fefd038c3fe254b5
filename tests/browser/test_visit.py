"""What was made in this visit, and what visitors take away from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import expect

from tests.browser.sounds import decode, median_pitch
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
    # Ned is shown already.
    assert [name.split(",")[0] for name in names] == ["Mei"]

    page.click(".made .play-one")
    page.wait_for_selector(".made.playing")
    with page.expect_download() as waiting:
        page.click(".made a")
    saved = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(saved)
    assert re.fullmatch(r"mei-\d{4}-\d\d-\d\d-\d{6}\.mp3", saved.name)
    assert median_pitch(decode(saved)) > 250

    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.click(".made .danger-text")
    page.wait_for_function("document.querySelectorAll('.made').length === 0")
    gone = httpx.get(f"{cloud.api}/api/v1/conversion/{first}", timeout=60)
    assert gone.status_code == 404
    # What is shown is the other one.
    assert visitor.text("h1") == "You, as Ned."
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.click("#delete")
    visitor.wait_for("start")
    assert not page.is_visible("#visit")


def test_a_deletion_can_be_taken_back_and_a_reload_keeps_what_was_made(
    open_page: OpenPage, cloud: Endpoints
) -> None:
    visitor = open_page()
    page = visitor.page
    page.check("[name=character][value=ned]", force=True)
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    address = f"{cloud.api}/api/v1/conversion/{visitor.voice_id()}"
    page.click("#delete")
    expect(page.locator("#status")).to_have_text("Deleted.")
    expect(page.locator(".made")).to_have_count(0)
    page.click("#undo")
    expect(page.locator(".made > span")).to_contain_text("Ned")
    expect(page.locator("#undo")).to_be_hidden()

    page.reload()
    visitor.wait_for("start")

    expect(page.locator("[name=character][value=ned]")).to_be_checked()
    expect(page.locator(".made > span")).to_contain_text("Ned")
    page.click(".made .play-one")
    page.wait_for_selector(".made.playing")
    assert httpx.get(address, timeout=60).status_code == 200
    assert visitor.sent("DELETE", "/api/v1/voices") == []
    # Leaving the page does not wait for the visitor to think better of it.
    page.click(".made .danger-text")
    page.goto("about:blank")
    for _ in range(50):
        if httpx.get(address, timeout=60).status_code == 404:
            break
        page.wait_for_timeout(100)
    assert httpx.get(address, timeout=60).status_code == 404
