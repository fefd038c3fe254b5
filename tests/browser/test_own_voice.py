"""What an owner of a character does and decides in the page, and what goes wrong on the way."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.owner import (
    ADDED,
    KEPT,
    READY,
    agree_to_the_terms,
    read_aloud,
    read_and_keep,
    serving,
    sign_in,
)
from tests.browser.sounds import MICROPHONE_RATE, SAMPLE, decode, loudness, write_wav
from tests.support.owners import minutes_of_reading, spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewVisitorAt
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor

_TRAINING_SECONDS = 900

_AXE = """
async () => (await axe.run()).violations.map(({ id, nodes }) =>
  `${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`)
"""

_OFFERED = """
Object.fromEntries([...document.querySelectorAll("[name=character]")].map((choice) =>
  [choice.value, choice.closest("label").innerText]))
"""


@pytest.fixture(scope="module")
def account_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """A local cloud whose visitors sign in."""
    with serving(tmp_path_factory.mktemp("accounts"), "--sign-in") as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def breathless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A microphone before which somebody speaks on and on: wherever a recording begins or ends."""
    frame = MICROPHONE_RATE // 100
    voice = decode(SAMPLE)
    pieces = voice[: len(voice) // (10 * frame) * 10 * frame].reshape(-1, 10, frame)
    loudest = sorted(pieces, key=lambda piece: min(map(loudness, piece)))[-12:]
    # Without moments as quiet as the room it would be noise.
    gap = np.zeros(2 * frame, np.float32)
    samples = np.concatenate([part for piece in loudest for part in (piece.ravel(), gap)])
    return write_wav(tmp_path_factory.mktemp("voices") / "breathless.wav", samples)


def test_an_owner_renames_shares_withdraws_and_keeps_the_recordings(
    visitor_at: NewVisitorAt, own_cloud: Endpoints, reading: Path, long_recordings: list[Path]
) -> None:
    page = visitor_at(own_cloud, microphone=reading).page
    page.goto(f"{own_cloud.page}own.html")
    agree_to_the_terms(page)
    page.set_input_files("#files", long_recordings)
    expect(page.locator("#status")).to_have_text(ADDED, timeout=60_000)
    page.click("#to-consent")
    read_and_keep(page)
    page.check("#keeps")
    page.click("#train")
    expect(page.locator("#headline")).to_have_text(READY, timeout=60_000)
    character = page.evaluate(KEPT)["characterId"]
    friend = visitor_at(own_cloud).page
    link = f"{own_cloud.page}#character={character}"
    expect(page.locator("[name=visibility][value=private]")).to_be_checked()
    expect(page.locator("#share-link")).to_be_hidden()
    assert character not in offered_to(friend, link)

    page.click("#card summary")
    expect(page.locator("#figures")).to_contain_text("87% (97% as recorded)")
    expect(page.locator("#figures")).to_contain_text("12 s: somebody else speaks")
    expect(page.locator("#pairs li")).to_have_count(2)
    with page.expect_response(lambda answer: answer.url.endswith("/card/own-1-converted")) as heard:
        page.get_by_role("button", name=re.compile("You: As the character")).click()
    assert heard.value.ok

    page.fill("#new-name", "Countess")
    page.click("#rename button")
    expect(page.locator("#headline")).to_have_text("Countess has your voice.")
    page.check("[name=visibility][value=link]")
    expect(page.locator("#share-link")).to_be_visible()
    assert "Countess" in offered_to(friend, link)[character]
    assert character not in offered_to(friend, own_cloud.page)
    page.check("[name=visibility][value=public]")
    expect(page.locator("#copied")).to_contain_text("Changed.")
    wait_until(lambda: character in offered_to(friend, own_cloud.page))
    assert list(offered_to(page.context.new_page(), own_cloud.page)).count(character) == 1
    page.check("[name=visibility][value=private]")
    expect(page.locator("#share-link")).to_be_hidden()
    assert character not in offered_to(friend, link)

    page.click("#train-again")
    expect(page.locator("#recordings-title")).to_have_text("Recordings: 6")
    expect(page.locator("#to-consent")).to_be_visible()
    read_and_keep(page)
    expect(page.locator("#recordings-title")).to_have_text("Recordings: 7", timeout=30_000)
    page.click("#to-consent")
    expect(page.locator("#train")).to_be_hidden()
    read_and_keep(page)
    page.click("#train")
    expect(page.locator("#headline")).to_have_text("Countess has your voice.", timeout=60_000)
    page.click("#forget-recordings")
    expect(page.locator("#kept-recordings")).to_be_hidden()
    expect(page.locator("#copied")).to_contain_text("The character stays.")


@pytest.mark.trains
def test_a_character_is_trained_really_of_what_its_owner_says(
    visitor_at: NewVisitorAt, training_cloud: Endpoints, tmp_path: Path
) -> None:
    """The owner is the voice of Open JTalk; the training is short, so the result is poor."""
    page = visitor_at(training_cloud).page
    page.goto(f"{training_cloud.page}own.html")
    agree_to_the_terms(page, language="ja")
    files = [
        write_wav(tmp_path / f"{number}.wav", samples)
        for number, samples in enumerate(minutes_of_reading())
    ]
    page.set_input_files("#files", files)
    expect(page.locator("#to-consent")).to_be_visible(timeout=120_000)
    kept = page.evaluate(KEPT)
    agreement = spoken(kept["sentence"])
    sentence = write_wav(tmp_path / "sentence.wav", agreement)

    owner = visitor_at(training_cloud, microphone=sentence)
    page = owner.page
    page.goto(f"{training_cloud.page}own.html#{kept['characterId']}.{kept['key']}")
    expect(page.locator("#to-consent")).to_be_visible(timeout=30_000)
    page.click("#to-consent")
    # Without the last second of the silence after it.
    read_and_keep(page, seconds=len(agreement) / MICROPHONE_RATE - 1)
    page.click("#train", timeout=30_000)

    expect(page.locator("#headline")).to_have_text(READY, timeout=_TRAINING_SECONDS * 1000)
    page.click("#card summary")
    expect(page.locator("#figures")).to_contain_text("minutes of your speech")
    expect(page.locator("#pairs li")).to_have_count(3)
    page.click("#speak")
    owner.wait_for("start")
    owner.speak(seconds=3)
    owner.wait_for("done")
    assert loudness(decode(owner.download(tmp_path))) > 0.001


def test_where_visitors_sign_in_a_character_belongs_to_an_account(
    visitor_at: NewVisitorAt,
    account_cloud: Endpoints,
    reading: Path,
    long_recordings: list[Path],
) -> None:
    visitor = visitor_at(account_cloud, microphone=reading)
    page = visitor.page
    page.goto(f"{account_cloud.page}own.html")
    expect(page.locator("#headline")).to_have_text("Sign in first.")
    expect(page.locator("#terms")).to_be_hidden()
    sign_in(page, "#enter")
    expect(page.locator("#problem-title")).to_have_text("Address or password is wrong.")
    sign_in(page, "#create-account")
    expect(page.locator("#signed-in-as")).to_have_text("Signed in as ada@example.org.")
    agree_to_the_terms(page)
    page.set_input_files("#files", long_recordings)
    expect(page.locator("#status")).to_have_text(ADDED, timeout=60_000)
    page.click("#to-consent")
    read_and_keep(page)
    with page.expect_request(lambda request: "/Listen/channel" in request.url):
        page.click("#train")
    expect(page.locator("#headline")).to_have_text(READY, timeout=60_000)
    kept = page.evaluate(KEPT)

    # The first page speaks as who has signed in: nobody else may speak with a private character.
    page.click("#speak")
    visitor.wait_for("start")
    assert character_of(page) == kept["characterId"]
    visitor.speak(seconds=3)
    visitor.wait_for("done")

    secret_link = f"{account_cloud.page}own.html#{kept['characterId']}.{kept['key']}"
    other = visitor_at(account_cloud).page
    other.goto(secret_link)
    expect(other.locator("#headline")).to_have_text("Sign in first.")
    other.click("#enter-anonymously")
    title = other.locator("#problem-title")
    expect(title).to_have_text("This character belongs to another account.")
    other.click("#language")
    expect(title).to_have_text("このキャラクターは別のアカウントのものです。")
    other.click("#language")
    # As it says; the link need not be opened again.
    other.click("#sign-out")
    expect(title).to_be_hidden()
    sign_in(other, "#enter")
    expect(other.locator("#headline")).to_have_text(READY)
    expect_character_by_the_sign_in_alone(visitor_at(account_cloud), kept)


def expect_character_by_the_sign_in_alone(visitor: Visitor, kept: Any) -> None:
    """Find a character on a device that has no link to it, and sign out."""
    page = visitor.page
    page.goto(f"{visitor.cloud.page}own.html")
    sign_in(page, "#enter")
    expect(page.locator("#headline")).to_have_text(READY)
    expect(page.locator("#come-back")).to_have_text(
        "On another device, sign in there with this account."
    )
    expect(page.locator("#copy-key")).to_be_hidden()
    page.click("#another")
    expect(page.locator("#others li")).to_have_text([kept["name"]])
    page.click("#others li button")
    page.click("#speak")
    visitor.wait_for("start")
    assert character_of(page) == kept["characterId"]
    # The list of the account's characters is not there yet when the visitor signs out.
    page.route("**/api/v1/own-characters", lambda _route: None)
    page.goto(f"{visitor.cloud.page}own.html")
    page.click("#sign-out")
    expect(page.locator("#headline")).to_have_text("Sign in first.")
    assert page.evaluate("localStorage.getItem('voice-avatar-own-characters')") == "[]"


def character_of(page: Page) -> str | None:
    return page.locator("[name=character]:checked").get_attribute("value")


@pytest.mark.parametrize(
    "looks",
    [
        {"locale": "ja-JP", "color_scheme": "light"},
        {"locale": "en-GB", "color_scheme": "dark"},
    ],
    ids=lambda looks: "-".join(looks.values()),
)
def test_no_step_of_an_account_has_an_accessibility_violation(
    visitor_at: NewVisitorAt,
    account_cloud: Endpoints,
    reading: Path,
    long_recordings: list[Path],
    *,
    axe: str,
    looks: dict[str, Any],
) -> None:
    page = visitor_at(account_cloud, microphone=reading, reduced_motion="reduce", **looks).page

    def expect_no_violation() -> None:
        assert page.evaluate(_AXE) == []

    page.goto(f"{account_cloud.page}own.html")
    page.evaluate(axe)
    address = f"{looks['color_scheme']}@{looks['locale']}.example"
    sign_in(page, "#enter", address)
    expect(page.locator("#problem")).to_be_visible()
    expect_no_violation()
    sign_in(page, "#create-account", address)
    expect(page.locator("#terms")).to_be_visible()
    expect_no_violation()
    agree_to_the_terms(page)
    expect_no_violation()
    page.set_input_files("#files", long_recordings)
    expect(page.locator("#recordings-title")).to_contain_text("6", timeout=60_000)
    page.click("#to-consent")
    expect_no_violation()
    read_and_keep(page)
    page.click("#recordings summary")
    expect(page.locator("#train")).to_be_visible()
    expect_no_violation()
    page.click("#train")
    page.wait_for_selector("body[data-scene=ready]", timeout=60_000)
    page.click("#card summary")
    expect(page.locator("#pairs li")).to_have_count(1)
    expect_no_violation()
    page.click("#another")
    expect(page.locator("#others li")).to_have_count(1)
    expect_no_violation()


def test_the_secret_link_opens_a_character_on_another_device(
    visitor_at: NewVisitorAt, own_cloud: Endpoints, reading: Path
) -> None:
    page = visitor_at(own_cloud, microphone=reading).page
    page.goto(f"{own_cloud.page}own.html")
    agree_to_the_terms(page)
    read_aloud(page)
    expect(page.locator("#recordings-title")).to_have_text("Recordings: 1")
    kept = page.evaluate(KEPT)

    other = visitor_at(own_cloud, microphone=reading, locale="ja-JP").page
    other.goto(f"{own_cloud.page}own.html#{kept['characterId']}.{kept['key']}")

    expect(other.locator("#recordings-title")).to_contain_text("1件")
    expect(other.locator("#line")).to_have_text("The quick brown fox jumps over the lazy dog.")
    assert kept["key"] not in other.url
    other.click("#recordings summary")
    other.click("#recordings button")
    expect(other.locator("#recordings")).to_be_hidden()


def test_a_sentence_that_is_cut_off_is_told_and_its_owner_decides(
    visitor_at: NewVisitorAt, own_cloud: Endpoints, breathless: Path
) -> None:
    visitor = visitor_at(own_cloud, microphone=breathless)
    page = visitor.page
    page.goto(f"{own_cloud.page}own.html")
    agree_to_the_terms(page)

    read_aloud(page, seconds=2.5)

    expect(page.locator("#status")).to_contain_text("cut off")
    expect(page.locator("#main-label")).to_have_text("Read again")
    assert visitor.sent("POST", "/recordings") == []
    page.click("#keep")
    expect(page.locator("#recordings-title")).to_have_text("Recordings: 1")


def test_recordings_because_of_which_a_training_has_failed_are_marked(
    visitor_at: NewVisitorAt, own_cloud: Endpoints, reading: Path
) -> None:
    visitor = visitor_at(own_cloud, microphone=reading)
    page = visitor.page
    page.goto(f"{own_cloud.page}own.html")
    agree_to_the_terms(page)
    for number in (1, 2):
        read_and_keep(page)
        expect(page.locator("#recordings-title")).to_have_text(f"Recordings: {number}")
    kept = page.evaluate(KEPT)
    path = f"/api/v1/own-characters/{kept['characterId']}"
    key = {"Own-Character-Key": kept["key"]}
    state = httpx.get(f"{own_cloud.api}{path}", headers=key).json()
    guilty = state["recordings"][1]["recording_id"]
    error = {"code": "another_voice", "message": "Two people speak.", "recordings": [guilty]}
    visitor.answer(f"**{path}", "GET", json=state | {"status": "failed", "error": error})

    page.reload()

    title = "Somebody else speaks in some of the recordings."
    expect(page.locator("#problem-title")).to_have_text(title)
    recordings = page.locator("#recordings li")
    expect(recordings.nth(0)).not_to_contain_text("somebody else")
    expect(recordings.nth(1)).to_contain_text("s: somebody else speaks")


def test_a_deployment_without_own_characters_offers_none(open_page: Any) -> None:
    visitor = open_page()
    expect(visitor.page.locator("#own-voice")).to_be_hidden()
    visitor.page.goto(f"{visitor.cloud.page}own.html")
    expect(visitor.page.locator("#headline")).to_contain_text("not offered here")


def offered_to(page: Page, address: str) -> dict[str, str]:
    """The characters that a visitor who opens an address can choose: their labels by id."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-scene=start]")
    offered: dict[str, str] = page.evaluate(_OFFERED)
    return offered


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    late = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < late
        time.sleep(0.5)
