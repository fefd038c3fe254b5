"""The whole way of a visitor: from the first sentence read aloud to what is made with the voice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import expect

from tests.browser.owner import READY, agree_to_the_terms, read_aloud, read_and_keep
from tests.browser.sounds import decode, loudness

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewVisitorAt
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor


def test_a_visitor_makes_a_character_speaks_as_it_and_deletes_it(
    visitor_at: NewVisitorAt,
    own_cloud: Endpoints,
    reading: Path,
    long_recordings: list[Path],
    tmp_path: Path,
) -> None:
    visitor = visitor_at(own_cloud, microphone=reading)
    page = visitor.page
    page.goto(own_cloud.page)
    page.click("#own-voice a")
    agree_to_the_terms(page)
    read_sentences(visitor, long_recordings)
    agree_aloud(page)
    with page.expect_request(lambda request: "/Listen/channel" in request.url):
        page.click("#train")
    expect(page.locator("#headline")).to_have_text(READY, timeout=60_000)

    page.click("#speak")
    visitor.wait_for("start")
    character = str(page.locator("[name=character]:checked").get_attribute("value"))
    assert re.fullmatch("own-[a-z2-7]{26}", character)
    visitor.speak(seconds=4)
    visitor.wait_for("done")
    expect(page.locator("#headline")).to_have_text("You, as Ada.")
    visitor.wait_until_played()
    own = visitor.download(tmp_path)
    assert re.fullmatch(r"ada-\d{4}-\d\d-\d\d-\d{6}\.mp3", own.name)
    assert loudness(decode(own)) > 0.01

    page.goto(f"{own_cloud.page}own.html")
    expect(page.locator("#headline")).to_have_text(READY)
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#delete")
    expect(page.locator("#terms")).to_be_visible()
    gone = httpx.get(f"{own_cloud.api}/api/v1/characters/{character}")
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_character")


def read_sentences(visitor: Visitor, more: list[Path]) -> None:
    """Read one aloud, and bring what was recorded before: dropped, and chosen."""
    page = visitor.page
    expect(page.locator("#line")).to_have_text("Good morning, everyone. How are you feeling today?")
    read_aloud(page)
    expect(page.locator("#status")).to_contain_text("Good:")
    expect(page.locator("#line")).to_have_text("The quick brown fox jumps over the lazy dog.")
    expect(page.locator("#to-consent")).to_be_hidden()
    visitor.drop(more[0], "audio/wav")
    expect(page.locator("#status")).to_have_text("Added: 1. Not usable: 0.", timeout=60_000)
    page.set_input_files("#files", more[1:])
    expect(page.locator("#status")).to_have_text("Added: 5. Not usable: 0.", timeout=60_000)
    expect(page.locator("#recordings-title")).to_have_text("Recordings: 7", timeout=30_000)


def agree_aloud(page: Page) -> None:
    page.click("#to-consent")
    expect(page.locator("#line")).to_contain_text("I agree that a synthetic voice is made")
    expect(page.locator("#train")).to_be_hidden()
    read_and_keep(page)
    expect(page.locator("#status")).to_contain_text("You can make your character now")
