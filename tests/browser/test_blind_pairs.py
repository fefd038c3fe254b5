"""A listener compares two voices on the page that `nox -s quality -- --listen` writes."""

from __future__ import annotations

import base64
import io
import json
import wave
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from tests.browser.browsers import chromium_path, microphone_flags
from tools.training.judges.blind_pairs import TRIALS, BlindPair, Floats, write_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

RATE = 16_000
HERTZ = {"now": 400, "<before>": 200}


def tone(hertz: float) -> Floats:
    return np.sin(np.arange(RATE // 5) / RATE * 2 * np.pi * hertz).astype(np.float32)


def who_plays(page: Page) -> str:
    """Tell the voice by the pitch of what the page's only player has."""
    encoded = page.evaluate("audio.src").partition("base64,")[2]
    with wave.open(io.BytesIO(base64.b64decode(encoded))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    heard = np.abs(np.fft.rfft(samples)).argmax() / len(samples) * RATE
    return min(HERTZ, key=lambda name: abs(HERTZ[name] - heard))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    sounds = {name: tone(hertz) for name, hertz in HERTZ.items()}
    pairs = [BlindPair(f"sentence {number}", sounds) for number in range(TRIALS)]
    write_page(tmp_path / "listen.html", "Hina: now or before", pairs, RATE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=microphone_flags(None)
        )
        page = browser.new_page()
        page.goto((tmp_path / "listen.html").as_uri())
        yield page
        browser.close()


def test_sixteen_pairs_are_judged_with_the_keyboard_alone_and_the_answers_say_what_each_was(
    page: Page, tmp_path: Path
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    orders = set()
    for _ in range(3):
        page.reload()
        orders.add(page.evaluate("JSON.stringify(trials.map(t => [t.recording, t.a.is]))"))
    assert len(orders) == 3  # each visit has one of its own
    press = page.keyboard.press
    heard = []
    for number in range(1, TRIALS + 1):
        assert page.inner_text("#progress") == f"Pair {number} of {TRIALS}"
        assert page.is_disabled("#choose-a")
        press("Enter")  # the keyboard is at "Play A" already
        page.wait_for_function("trials[answers.length].plays.a === 1")
        first = who_plays(page)
        assert page.is_disabled("#choose-a")
        press("Tab")
        press("Space")
        page.wait_for_selector("#choose-a:enabled")
        assert {first, who_plays(page)} == set(HERTZ)
        press("Tab")
        if first == "<before>":
            press("Tab")
        heard.append(first)
        if number < TRIALS:
            press("Enter")
    with page.expect_download() as download:
        press("Enter")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)

    written = json.loads(saved.read_text("utf-8"))
    answers = written["answers"]
    assert written["title"] == "Hina: now or before"
    assert [answer["a"] for answer in answers] == heard
    assert [answer[answer["chosen"]] for answer in answers] == ["now"] * TRIALS
    # Neither place in the pair belongs to a voice, and no sentence is heard twice.
    assert heard.count("now") == TRIALS // 2
    assert {answer["recording"] for answer in answers} == {f"sentence {n}" for n in range(TRIALS)}
    assert {tuple(answer["plays"].values()) for answer in answers} == {(1, 1)}
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
