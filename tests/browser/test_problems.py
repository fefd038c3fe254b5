"""When something fails, the visitor reads what to do, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.crowds import only_mei_types
from tests.browser.sounds import decode, write_wav

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints

EXPIRED = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>ExpiredToken</Code></Error>"
RESULTS = "**/*X-Goog-Signature*"


def test_who_has_no_microphone_types_instead(new_visitor: OpenPage, cloud: Endpoints) -> None:
    visitor = new_visitor(permission="denied")
    visitor.answer("**/api/v1/characters", "GET", json=only_mei_types(cloud))
    visitor.open()
    visitor.page.check("[name=character][value=ned]", force=True)
    visitor.press()
    assert visitor.problem() == "The microphone is blocked."
    assert "address bar" in visitor.text("#problem-text")
    assert visitor.page.is_visible("#mode")
    assert not visitor.page.is_visible("#again")
    visitor.page.click("#type-instead")
    visitor.wait_for("start")
    assert visitor.page.evaluate("document.activeElement.id") == "text"
    # Ned cannot speak a text, so somebody else has been chosen.
    assert visitor.page.is_checked("[name=character][value=mei]")
    visitor.page.check("[name=mode][value=speak]", force=True)
    visitor.press()
    assert visitor.problem() == "The microphone is blocked."
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.wait_for("start")
    assert visitor.text("#main-label") == "Say it"
    visitor.page.fill("#text", "おはようございます。")
    visitor.press()
    visitor.wait_for("done")


def test_no_microphone(open_page: OpenPage) -> None:
    visitor = open_page(microphone=None)
    visitor.press()
    assert visitor.problem() == "No microphone was found."


def test_a_recording_that_is_too_short_is_refused_and_its_voice_erased(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    characters = httpx.get(f"{cloud.api}/api/v1/characters").json()
    # Longer than the slowest machine takes between the two presses.
    characters["characters"][0]["limits"] = {"min_seconds": 8, "max_seconds": 10}
    visitor = new_visitor()
    visitor.answer("**/api/v1/characters", "GET", json=characters)
    visitor.open()
    with visitor.page.expect_response(lambda response: response.request.method == "DELETE"):
        visitor.press()
        visitor.wait_for("recording")
        visitor.press()
    assert visitor.problem() == "That was too short."
    assert visitor.sent("PUT", visitor.cloud.storage) == []


def test_a_muted_microphone(open_page: OpenPage, muted: Path) -> None:
    visitor = open_page(microphone=muted)
    visitor.press()
    expect(visitor.page.locator("#status")).to_contain_text("can\u2019t hear you yet")
    visitor.press()
    assert visitor.problem() == "We couldn\u2019t hear anything."
    assert visitor.text("#main-label") == "Record"
    assert visitor.sent("PUT", visitor.cloud.storage) == []


def test_a_file_that_is_too_long(open_page: OpenPage, hello: Path, tmp_path: Path) -> None:
    visitor = open_page(microphone=None)
    visitor.drop(write_wav(tmp_path / "long.wav", np.tile(decode(hello), 3)))
    assert visitor.problem() == "That is too long."
    assert visitor.sent("POST", "/api/v1/voices") == []


def test_a_file_that_is_too_large(open_page: OpenPage, tmp_path: Path) -> None:
    visitor = open_page(microphone=None)
    path = tmp_path / "large.mp3"
    path.write_bytes(bytes(9_000_000))
    visitor.choose(path)
    assert visitor.problem() == "That file is too large."
    assert visitor.sent("PUT", visitor.cloud.storage) == []


def test_the_service_refuses_a_file_without_audio(open_page: OpenPage, tmp_path: Path) -> None:
    visitor = open_page(microphone=None)
    path = tmp_path / "notes.wav"
    path.write_text("These are only notes. " * 500)
    visitor.drop(path)
    assert visitor.problem() == "This file cannot be read as audio."
    assert len(visitor.sent("PUT", visitor.cloud.storage)) == 1


def test_a_file_of_another_kind(open_page: OpenPage, tmp_path: Path) -> None:
    visitor = open_page(microphone=None)
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    visitor.drop(path, "image/png")
    assert visitor.problem() == "This file cannot be read as audio."


def test_going_offline_in_the_middle_loses_nothing(open_page: OpenPage) -> None:
    visitor = open_page()
    held = visitor.holding_upload(lambda: visitor.speak(seconds=2))
    visitor.context.set_offline(offline=True)
    visitor.page.wait_for_function(
        "() => document.querySelector('#status').textContent.startsWith('You are offline.')"
    )
    held.break_off()
    assert visitor.problem() == "The connection was lost."
    assert visitor.page.is_visible("#own .play")
    visitor.answer_truly()
    # Another recording would break off, too.
    assert not visitor.page.is_visible("#again")
    visitor.context.set_offline(offline=False)
    visitor.wait_for("done")
    # The SDK asks an image elsewhere whether there is a network at all; the policy forbids it.
    visitor.complaints[:] = [each for each in visitor.complaints if "cleardot" not in each]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [("PUT", "The upload came too late."), ("GET", "The link to the result has expired.")],
)
def test_an_expired_address_can_be_tried_again(
    open_page: OpenPage, method: str, sentence: str
) -> None:
    visitor = open_page()
    visitor.without_live()
    visitor.answer(RESULTS, method, status=400, body=EXPIRED, content_type="application/xml")
    visitor.speak(seconds=2)
    assert visitor.problem() == sentence
    visitor.answer_truly()
    visitor.press()
    visitor.wait_for("done")


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (429, "rate_limited", "Too many requests."),
        (503, "maintenance", "Something went wrong on our side."),
    ],
)
def test_a_refusal_is_shown_after_the_recording_and_can_be_tried_again(
    open_page: OpenPage, status: int, code: str, sentence: str
) -> None:
    visitor = open_page()
    visitor.answer(
        "**/api/v1/voices",
        "POST",
        status=status,
        # More than the page waits in line.
        headers={"Retry-After": "600", "Access-Control-Expose-Headers": "Retry-After"},
        json={
            "type": "about:blank",
            "title": "No",
            "status": status,
            "code": code,
            "detail": "No.",
        },
    )
    visitor.speak(seconds=2)
    assert visitor.problem() == sentence
    assert visitor.page.is_visible("#problem-code") == (code == "maintenance")
    visitor.answer_truly()
    visitor.press()
    visitor.wait_for("done")


def test_in_a_crowd_the_recording_waits_for_its_turn(open_page: OpenPage) -> None:
    visitor = open_page()
    visitor.answer(
        "**/api/v1/voices",
        "POST",
        status=503,
        headers={"Retry-After": "12", "Access-Control-Expose-Headers": "Retry-After"},
        json={"status": 503, "code": "unavailable", "detail": "Many visitors are here."},
    )
    visitor.speak(seconds=2)
    visitor.page.locator("#status", has_text="Your turn comes in about").wait_for()
    visitor.page.click("#language")
    assert "順番が来ます" in visitor.text("#status")
    visitor.answer_truly()
    visitor.wait_for("done")
    assert len(visitor.sent("POST", "/api/v1/voices")) == 2


def test_a_service_that_cannot_be_reached_at_first(new_visitor: OpenPage) -> None:
    visitor = new_visitor()
    visitor.page.route("**/api/v1/characters", lambda route: route.abort())
    visitor.page.goto(visitor.cloud.page)
    assert visitor.problem() == "We can\u2019t reach the service."
    assert not visitor.page.is_visible("#again")
    visitor.answer_truly()
    visitor.press()
    visitor.wait_for("start")


def test_a_host_that_answers_every_request_with_the_page_is_not_taken_for_the_api(
    new_visitor: OpenPage,
) -> None:
    visitor = new_visitor()
    for path in ("**/config.json", "**/api/v1/characters"):
        visitor.answer(path, "GET", body="<!doctype html>", content_type="text/html")
    visitor.page.goto(visitor.cloud.page)
    assert visitor.problem() == "We can\u2019t reach the service."


def test_the_page_opens_without_a_network_and_says_what_is_missing(
    open_page: OpenPage,
) -> None:
    visitor = open_page(service_workers="allow")
    visitor.page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
    visitor.context.set_offline(offline=True)
    visitor.page.reload()
    assert visitor.problem() == "We can\u2019t reach the service."
    assert "connection" in visitor.text("#problem-text")
    visitor.context.set_offline(offline=False)
    visitor.press()
    visitor.wait_for("start")
