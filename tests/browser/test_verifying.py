"""Was this made here? A visitor's own result, and what somebody else makes of it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import c2pa
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor


def test_a_downloaded_result_is_recognised_and_so_is_a_change_of_one_sample(
    open_page: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = open_page()
    visitor.speak(seconds=4)
    visitor.wait_for("done")
    result = visitor.download(tmp_path)
    data = bytearray(result.read_bytes())
    trusted = (cloud.folder / "origin" / "authority.pem").read_text()

    report = read_with_c2pa(bytes(data), trusted)
    assert report["validation_state"] == "Trusted"
    assert ask(visitor, result) == "unchanged"
    expect(visitor.page.locator("#verify-answer")).to_contain_text("made here")

    # A sample in the middle of the sound; the statement lies behind it.
    data[data.index(b"data") + 50_000] ^= 1
    changed = tmp_path / f"changed{result.suffix}"
    changed.write_bytes(data)
    codes = [each["code"] for each in read_with_c2pa(bytes(data), trusted)["validation_status"]]
    assert "assertion.dataHash.mismatch" in codes
    assert ask(visitor, changed) == "changed"

    visitor.page.click("#language")
    expect(visitor.page.locator("#verify-answer")).to_contain_text("変更されています")


def test_what_the_owner_of_a_voice_forbids_stands_beside_the_download(open_page: OpenPage) -> None:
    visitor = open_page()
    visitor.page.check("[name=character][value=ned]", force=True)
    visitor.speak(seconds=2)
    visitor.wait_for("done")

    forbidden = visitor.page.locator("#forbidden")
    expect(forbidden).to_have_text(
        "The owner of this voice does not allow: adult content and politics."
    )
    visitor.page.click("#language")
    expect(forbidden).to_contain_text("政治的な利用")


def test_a_file_that_is_no_sound_is_told(open_page: OpenPage, tmp_path: Path) -> None:
    visitor = open_page()
    text = tmp_path / "text.wav"
    text.write_text("no sound " * 100)

    assert ask(visitor, text) == "verifyFailed"


def ask(visitor: Visitor, file: Path) -> str | None:
    details = visitor.page.locator("#verify")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    before = visitor.page.locator("#verify-answer")
    visitor.page.set_input_files("#verify-file", file)
    expect(before).not_to_have_attribute("data-verdict", "nothing")
    visitor.page.wait_for_function(
        "() => !['verifyBusy', undefined].includes("
        "document.querySelector('#verify-answer').dataset.verdict)",
        timeout=60_000,
    )
    return before.get_attribute("data-verdict")


def read_with_c2pa(data: bytes, trusted: str) -> dict[str, Any]:
    settings = {"verify": {"verify_trust": True}, "trust": {"trust_anchors": trusted}}
    context = c2pa.Context(settings=c2pa.Settings.from_dict(settings))
    reader = c2pa.Reader("audio/wav", io.BytesIO(data), context=context)
    report: dict[str, Any] = json.loads(reader.json())
    return report
