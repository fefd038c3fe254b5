"""Visits of the page that succeed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.browser.sounds import MICROPHONE_RATE, decode, loudness, median_pitch, write_wav

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor


def test_a_spoken_sentence_comes_back_in_the_characters_voice(
    open_page: OpenPage, hello: Path, tmp_path: Path
) -> None:
    visitor = open_page()
    visitor.speak(seconds=4)
    visitor.wait_for("done")
    visitor.wait_until_played()
    result = decode(visitor.download(tmp_path))

    assert loudness(result) > 0.01
    assert len(result) / MICROPHONE_RATE == pytest.approx(_seconds(visitor, "#own"), abs=0.2)
    assert median_pitch(decode(hello)) < 180
    assert median_pitch(result) > 200


def test_a_recording_goes_into_cloud_storage_and_its_stages_come_from_firestore(
    open_page: OpenPage,
) -> None:
    visitor = open_page()
    visitor.without_live()
    assert visitor.sent("GET", "firestoreListener") == []
    visitor.speak(seconds=2)
    visitor.wait_for("done")

    (upload,) = visitor.sent("PUT", visitor.cloud.storage)
    assert "X-Goog-Signature=" in upload.url
    assert upload.headers["content-type"] == "audio/webm;codecs=opus"
    (wish,) = visitor.wishes()
    assert wish["content_type"] == "audio/webm;codecs=opus"
    seen = visitor.seen()
    assert seen[:4] == ["loading", "start", "recording", "busy"]
    # The record of "queued" may be overtaken by the conversion's own; the last two are one moment.
    stages = [stage for stage in seen[4:] if stage != "queued"]
    assert stages in (
        ["uploading", "converting", "done"],
        ["uploading", "converting", "done", "done"],
    )
    assert visitor.sent("GET", "/api/v1/conversion/") == []
    assert visitor.sent("POST", "Firestore/Listen/channel") != []


def test_the_client_alone_sees_every_status(
    open_page: OpenPage, harness: str, cloud: Endpoints, hello: Path
) -> None:
    visitor = open_page()
    visitor.page.evaluate(harness)
    audio = base64.b64encode(hello.read_bytes()).decode()
    told = visitor.page.evaluate(
        "([site, audio]) => window.harness.convert(site, audio, 'audio/wav')",
        [cloud.site(), audio],
    )
    statuses = [step for step in told["steps"] if step in _STATUSES]
    assert statuses in (list(_STATUSES), ["waiting", "converting", "done"])
    assert httpx.get(told["url"]).headers["content-type"] == "audio/wav"


def test_without_firestore_the_page_waits_on_the_api(new_visitor: OpenPage) -> None:
    visitor = new_visitor()
    body = json.dumps({"api": visitor.cloud.api, "firebase": None, "firestoreEmulator": None})
    visitor.answer("**/config.json", "GET", body=body)
    visitor.open()
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    assert len(visitor.sent("GET", "/api/v1/conversion/")) == 1
    assert visitor.sent("GET", "firestoreListener") == []


def test_a_file_is_accepted_instead_of_a_recording(open_page: OpenPage, hello: Path) -> None:
    visitor = open_page(microphone=None)
    visitor.choose(hello)
    visitor.wait_for("done")
    (wish,) = visitor.wishes()
    assert wish["content_type"] == "audio/wav"
    assert visitor.seen()[:3] == ["loading", "start", "busy"]


def test_a_new_file_replaces_one_that_is_still_being_decoded(
    open_page: OpenPage, hello: Path, tmp_path: Path
) -> None:
    visitor = open_page(microphone=None)
    short = write_wav(tmp_path / "short.wav", decode(hello)[: 2 * MICROPHONE_RATE])
    let_decode = visitor.holding_decoding(lambda: visitor.drop(hello))
    held = visitor.holding_upload(lambda: visitor.drop(short))
    let_decode()
    assert _seconds(visitor, "#own") == pytest.approx(2, abs=0.1)
    held.go_on()
    visitor.wait_for("done")
    assert len(visitor.wishes()) == 1
    assert visitor.seen()[:3] == ["loading", "start", "busy"]


def test_a_recording_replaces_a_file_that_is_still_being_decoded(
    open_page: OpenPage, hello: Path
) -> None:
    visitor = open_page()
    let_decode = visitor.holding_decoding(lambda: visitor.drop(hello))
    visitor.speak(seconds=2, meanwhile=lambda _: let_decode())
    visitor.wait_for("done")
    # Stopped by the visitor, not by the limit.
    assert _seconds(visitor, "#own") < 9
    assert len(visitor.wishes()) == 1


def test_escape_while_the_recording_is_decoded_stays_in_effect(open_page: OpenPage) -> None:
    visitor = open_page()
    let_decode = visitor.holding_decoding(lambda: visitor.speak(seconds=2))
    visitor.page.keyboard.press("Escape")
    visitor.wait_for("start")
    let_decode()
    assert visitor.seen() == ["loading", "start", "recording", "start"]


def test_a_recording_continues_after_the_previous_voice_was_deleted(open_page: OpenPage) -> None:
    visitor = open_page()
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    held = visitor.holding_deletion(lambda: visitor.page.click("#delete"))
    visitor.press()
    visitor.wait_for("recording")
    with visitor.page.expect_response(lambda response: response.request.method == "DELETE"):
        held.go_on()
    visitor.page.wait_for_function(
        "() => Number(document.querySelector('#countdown').textContent || 99) < 8"
    )
    visitor.press()
    visitor.wait_for("done")


def test_the_pitch_can_be_set_by_hand_and_the_same_recording_converted_again(
    open_page: OpenPage,
) -> None:
    visitor = open_page()
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    assert not visitor.page.is_visible("#convert-again")
    visitor.page.check("[name=pitch][value=hand]", force=True)
    visitor.page.fill("#shift", "-5")
    assert visitor.text("#shift-value") == "-5 semitones"
    visitor.page.click("#convert-again")
    visitor.wait_for("busy")
    visitor.wait_for("done")
    wishes = [wish["pitch_shift"] for wish in visitor.wishes()]
    assert wishes == ["auto", -5]


def test_a_result_stays_with_its_speaker_and_another_character_is_one_button_away(
    open_page: OpenPage, tmp_path: Path
) -> None:
    visitor = open_page()
    visitor.page.check("[name=character][value=mei]", force=True)
    visitor.speak(seconds=4)
    visitor.wait_for("done")
    shown = _speaker(visitor)
    visitor.page.check("[name=character][value=ned]", force=True)
    assert _speaker(visitor) == shown
    assert [shown["headline"], shown["label"]] == ["You, as Mei.", "Mei"]
    assert "/mei/" in shown["portrait"]
    assert visitor.download(tmp_path).name.startswith("mei-")
    assert visitor.text("#convert-again") == "Hear it as Ned"
    visitor.page.click("#convert-again")
    visitor.wait_for("busy")
    visitor.wait_for("done")
    shown = _speaker(visitor)
    assert [shown["headline"], shown["label"]] == ["You, as Ned.", "Ned"]
    assert "/ned/" in shown["portrait"]
    assert not visitor.page.is_visible("#convert-again")
    path = visitor.download(tmp_path)
    assert path.name.startswith("ned-")
    assert median_pitch(decode(path)) < 180
    assert [wish["character"] for wish in visitor.wishes()] == ["mei", "ned"]


def test_cancel_while_waiting_erases_the_voice(open_page: OpenPage, cloud: Endpoints) -> None:
    visitor = open_page()
    visitor.holding_upload(lambda: visitor.speak(seconds=2))
    assert visitor.text("#main-label") == "Cancel"
    with visitor.page.expect_response(lambda response: response.request.method == "DELETE"):
        visitor.press()
    visitor.wait_for("start")
    assert _status(cloud, visitor.voice_id()) == 404


def test_visitors_can_play_their_own_recording_while_it_is_converted(open_page: OpenPage) -> None:
    visitor = open_page()
    held = visitor.holding_upload(lambda: visitor.speak(seconds=2))
    visitor.page.click("#own .play")
    visitor.page.wait_for_selector("#own .play[aria-label='Pause: You']")
    held.go_on()
    visitor.wait_for("done")


def test_everything_works_with_the_keyboard_alone(open_page: OpenPage) -> None:
    visitor = open_page()
    visitor.page.focus("#language")
    visitor.page.keyboard.press("Tab")
    assert visitor.page.evaluate("document.activeElement.name") == "mode"
    visitor.page.keyboard.press("Tab")
    assert visitor.page.evaluate("document.activeElement.id") == "main"
    visitor.page.keyboard.press("Enter")
    visitor.wait_for("recording")
    visitor.page.wait_for_function(
        "() => Number(document.querySelector('#countdown').textContent || 99) < 8"
    )
    visitor.page.keyboard.press("Space")
    visitor.wait_for("done")
    assert visitor.page.evaluate("document.activeElement.id") == "main"


def test_the_recording_ends_by_itself_at_the_limit(open_page: OpenPage) -> None:
    visitor = open_page()
    visitor.press()
    visitor.wait_for("done")
    assert _seconds(visitor, "#own") == pytest.approx(9.9, abs=0.3)


def test_a_file_with_an_unusual_sample_rate_is_converted(
    open_page: OpenPage, hello: Path, tmp_path: Path
) -> None:
    visitor = open_page(microphone=None)
    slow = write_wav(tmp_path / "slow.wav", decode(hello, rate=11_025), rate=11_025)
    visitor.drop(slow, "audio/x-wav")
    visitor.wait_for("done")


_STATUSES = ("waiting", "queued", "converting", "done")


def _seconds(visitor: Visitor, row: str) -> float:
    return float(visitor.text(f"{row} .length").split()[0])


def _speaker(visitor: Visitor) -> dict[str, str]:
    return {
        "headline": visitor.text("h1"),
        "label": visitor.text("#converted .who"),
        "portrait": visitor.page.get_attribute("#face img", "src") or "",
        "button": (visitor.page.get_attribute("#main", "aria-label") or "").partition(": ")[2],
        "colour": visitor.page.evaluate("document.documentElement.style.cssText"),
    }


def _status(cloud: Endpoints, voice_id: str) -> int:
    return httpx.get(f"{cloud.api}/api/v1/conversion/{voice_id}", timeout=60).status_code
