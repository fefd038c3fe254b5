"""The page's languages, accessibility, small screens, size and security policy."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor

# The sentences whose last two letters and full stop are not in one line.
_CUT_ENDS = """
() => [...document.querySelectorAll("p")].flatMap((p) => {
  const last = p.lastChild;
  if (!p.checkVisibility() || last?.nodeType !== Node.TEXT_NODE || last.length < 4) return [];
  const range = document.createRange();
  range.setStart(last, last.length - 3);
  range.setEnd(last, last.length);
  return range.getClientRects().length > 1 ? [p.textContent] : [];
})
"""

_AXE = """
async () => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await axe.run({ runOnly: { type: "tag", values: tags } });
  return violations.map(({ id, impact, nodes }) =>
    `${impact}: ${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`);
}
"""


@pytest.mark.parametrize(("scheme", "locale"), [("light", "en-GB"), ("dark", "ja-JP")])
def test_no_scene_has_an_accessibility_violation(
    open_page: OpenPage, axe: str, muted: Path, scheme: str, locale: str
) -> None:
    visitor = open_page(color_scheme=scheme, locale=locale, reduced_motion="reduce")
    visitor.page.evaluate(axe)
    assert _violations(visitor) == []
    visitor.press()
    visitor.wait_for("recording")
    assert _violations(visitor) == []
    visitor.page.keyboard.press("Escape")
    visitor.wait_for("start")
    held = visitor.holding_upload(lambda: visitor.speak(seconds=2))
    assert _violations(visitor) == []
    held.go_on()
    visitor.wait_for("done")
    visitor.page.check("[name=pitch][value=hand]", force=True)
    assert _violations(visitor) == []
    visitor.drop(muted)
    visitor.wait_for("problem")
    assert _violations(visitor) == []


@pytest.mark.parametrize(
    ("locale", "headline", "other"),
    [
        ("ja-JP", "あなたのことばを、ひなの声で。", "English"),
        ("de-DE", "Your words, in Hina\u2019s voice.", "日本語"),
    ],
)
def test_the_page_speaks_the_browsers_language_and_can_be_switched(
    open_page: OpenPage, locale: str, headline: str, other: str
) -> None:
    visitor = open_page(locale=locale)
    assert visitor.text("h1").replace("\n", "") == headline
    assert visitor.text("#language") == other
    visitor.page.click("#language")
    switched = visitor.text("h1")
    assert switched.replace("\n", "") != headline
    visitor.page.reload()
    visitor.wait_for("start")
    assert visitor.text("h1") == switched


@pytest.mark.parametrize(("width", "locale"), [(320, "en-GB"), (320, "ja-JP"), (400, "en-GB")])
def test_nothing_is_cut_off_on_a_phone(open_page: OpenPage, width: int, locale: str) -> None:
    visitor = open_page(viewport={"width": width, "height": 640}, locale=locale)
    assert _overflow(visitor) == []
    held = visitor.holding_upload(lambda: visitor.speak(seconds=2))
    assert _overflow(visitor) == []
    held.go_on()
    visitor.wait_for("done")
    assert _overflow(visitor) == []


@pytest.mark.parametrize("width", [375, 768])
def test_japanese_sentences_do_not_end_in_the_middle_of_a_word(
    open_page: OpenPage, width: int
) -> None:
    visitor = open_page(viewport={"width": width, "height": 900}, locale="ja-JP", microphone=None)
    assert visitor.page.evaluate(_CUT_ENDS) == []


@pytest.mark.parametrize("locale", ["en-GB", "ja-JP"])
@pytest.mark.parametrize(("width", "height"), [(320, 568), (375, 667)])
def test_the_first_screen_of_a_phone_has_what_the_visitor_needs_next(
    open_page: OpenPage, width: int, height: int, locale: str
) -> None:
    visitor = open_page(viewport={"width": width, "height": height}, locale=locale)
    for seen in ("#mode", "#main", "#file-hint"):
        assert _box(visitor, seen).bottom <= height
    assert _box(visitor, "#file-hint").top - _box(visitor, "#main").bottom < 0.14 * height
    visitor.page.check("[name=mode][value=type]", force=True)
    assert _box(visitor, "#say").bottom <= height
    visitor.page.check("[name=mode][value=speak]", force=True)

    def look_at_the_countdown(_: str) -> None:
        icon = _box(visitor, "#main .icon")
        assert _box(visitor, "#countdown").bottom <= icon.top

    held = visitor.holding_upload(lambda: visitor.speak(seconds=2, meanwhile=look_at_the_countdown))
    labels = visitor.page.locator("#stages li:visible span")
    rights = [label.bounding_box() for label in labels.all()]
    for one, other in itertools.pairwise(rights):
        assert one is not None
        assert other is not None
        assert one["x"] + one["width"] < other["x"]
    held.go_on()
    visitor.wait_for("done")
    visitor.page.evaluate("scrollTo(0, 0)")
    assert _box(visitor, "#comparison").bottom <= height
    if width == 375:
        assert _box(visitor, "#download").bottom <= height


_WATCH_THE_MOUTH = """
() => {
  window.openings = new Set();
  window.widths = new Set();
  const mouth = document.querySelector("#face .mouth");
  new MutationObserver(() => {
    window.openings.add(mouth.style.getPropertyValue("--open"));
    window.widths.add(mouth.style.getPropertyValue("--wide"));
  }).observe(mouth, { attributes: true });
}
"""


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", True), ("reduce", False)])
def test_the_mouth_moves_while_the_character_is_heard_and_closes_at_the_end(
    open_page: OpenPage, motion: str, *, moves: bool
) -> None:
    visitor = open_page(reduced_motion=motion)
    visitor.page.check("[name=character][value=mei]", force=True)
    visitor.speak(seconds=3)
    visitor.wait_for("done")
    visitor.page.evaluate(_WATCH_THE_MOUTH)
    visitor.wait_until_played()
    visitor.press()
    visitor.wait_until_played()
    openings = {float(each) for each in visitor.page.evaluate("[...window.openings]")}
    assert (len(openings) > 5) == moves
    assert not visitor.page.locator("#face .mouth.open").count()
    assert set(visitor.page.evaluate("[...window.widths]")) <= {"1.00"}


def test_the_lips_have_the_shapes_of_what_is_said_in_a_text(open_page: OpenPage) -> None:
    visitor = open_page(microphone=None)
    visitor.page.check("[name=character][value=mei]", force=True)
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.page.fill("#text", "あいうえお、まみむめも。")
    visitor.press()
    visitor.wait_for("done")
    visitor.page.evaluate(_WATCH_THE_MOUTH)
    visitor.wait_until_played()
    visitor.press()
    visitor.wait_until_played()
    # Those of the vowels; a sound alone tells no width.
    assert {"0.65", "0.75", "1.10", "1.20"} <= set(visitor.page.evaluate("[...window.widths]"))


def test_credit_licence_and_terms_are_shown_before_the_recording(
    open_page: OpenPage, cloud: Endpoints
) -> None:
    character = httpx.get(f"{cloud.api}/api/v1/characters").json()["characters"][0]
    visitor = open_page()
    visitor.page.click(".character summary")
    shown = visitor.page.inner_text(".character")
    assert character["name"]["en"] in shown
    assert character["credit"] in shown
    assert character["licence"]["name"] in shown
    assert visitor.page.get_attribute(".character a:last-child", "href") == character["terms_url"]


def test_a_character_whose_portrait_is_not_there_has_its_initial_also_when_it_has_spoken(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    characters = httpx.get(f"{cloud.api}/api/v1/characters").json()
    characters["characters"][0] |= {
        "portrait_url": "/api/v1/characters/nobody/portrait",
        "colour": "#2f6f9f",
    }
    initial = characters["characters"][0]["name"]["en"][0]
    visitor = new_visitor()
    visitor.answer("**/api/v1/characters", "GET", json=characters)
    visitor.open()
    expect(visitor.page.locator(".portrait").first).to_have_text(initial)
    expect(visitor.page.locator("#face")).to_be_hidden()

    visitor.speak(seconds=2)
    visitor.wait_for("done")

    expect(visitor.page.locator("#face .initial")).to_have_text(initial)
    expect(visitor.page.locator("#face .initial")).to_be_visible()
    expect(visitor.page.locator("#face img")).to_be_hidden()
    assert not visitor.page.locator("#face .feature").count()


def test_markup_in_the_services_answers_is_shown_as_text(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    characters = httpx.get(f"{cloud.api}/api/v1/characters").json()
    markup = "<img src=x onerror=alert(1)>"
    address = "javascript:alert(1)"
    for character in characters["characters"]:
        character["name"] = {"en": markup, "ja": markup}
        character |= {"credit": markup, "credits": {"en": markup, "ja": markup}}
        character["licence"] = {"name": markup, "url": address}
        character |= {"terms_url": address, "forbidden_uses": [markup]}
    visitor = new_visitor()
    visitor.answer("**/api/v1/characters", "GET", json=characters)
    visitor.open()
    visitor.page.click(".character summary")
    assert visitor.text(".character").count(markup) >= 3, "name, credit and licence"
    assert visitor.page.locator("a[href^=javascript], img[src=x]").count() == 0


def test_markup_in_the_answers_about_an_own_character_is_shown_as_text(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    markup = "<img src=x onerror=alert(1)>"
    owner = {"characterId": f"own-{'a' * 26}", "key": "k" * 30}
    kept = {"name": markup, "language": "en", "sentence": markup, "at": 0, "spoken": []}
    told = json.dumps([owner | kept | {"isReady": True}])
    answer = {
        "character_id": owner["characterId"],
        "document": markup,
        "name": markup,
        "status": "ready",
        "sentence": markup,
        "recordings": [],
        "stage": markup,
        "share": 0.5,
        "error": {"code": markup, "message": markup},
        "expires_at": None,
        "is_usable": True,
        "visibility": "link",
        "allowed_visibilities": ["private", "link"],
        "keeps_recordings": True,
        "can_train_again": True,
    }
    site = httpx.get(f"{cloud.page}config.json").json()
    visitor = new_visitor()
    visitor.page.add_init_script(
        f"localStorage.setItem('voice-avatar-own-characters', {json.dumps(told)})"
    )
    visitor.answer("**/config.json", "GET", json=site | {"ownCharacters": True})
    visitor.answer("**/api/v1/own-characters/*", "GET", json=answer)

    visitor.page.goto(f"{cloud.page}own.html")
    expect(visitor.page.locator("#headline")).to_contain_text(markup)

    assert visitor.page.locator("a[href^=javascript], img[src=x]").count() == 0


def test_the_operator_is_named_before_anything_is_recorded(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    site = httpx.get(f"{cloud.page}config.json").json()
    operator = {
        "name": "Ada's Museum",
        "contact": "ada@example.org",
        "privacy": "https://museum.example/privacy",
    }
    visitor = new_visitor()
    visitor.answer("**/config.json", "GET", json=site | {"operator": operator})
    visitor.open()

    before = visitor.page.locator("#before")
    expect(before).to_contain_text("Ada's Museum receives what you say or type")
    links = before.locator("a")
    assert [link.get_attribute("href") for link in links.all()] == [
        "https://museum.example/privacy",
        "mailto:ada@example.org",
    ]
    visitor.page.click("#language")
    expect(before).to_contain_text("Ada's Museumに送られ")


def test_the_policy_blocks_scripts_and_connections_of_other_origins(open_page: OpenPage) -> None:
    visitor = open_page()
    reached: bool = visitor.page.evaluate(
        "() => fetch('https://elsewhere.example/').then(() => true, () => false)"
    )
    ran: bool = visitor.page.evaluate(
        """() => {
          const script = document.createElement("script");
          try { script.textContent = "window.ran = true"; } catch {}
          document.head.append(script);
          return window.ran === true;
        }"""
    )
    assert (reached, ran) == (False, False)
    assert [each for each in visitor.complaints if "Content Security Policy" in each] != []
    visitor.complaints.clear()


def test_the_pages_own_javascript_is_small(page_size: str) -> None:
    assert "bytes compressed" in page_size


class _Box(NamedTuple):
    """Where an element is, in CSS pixels of the window."""

    top: float
    bottom: float


def _box(visitor: Visitor, selector: str) -> _Box:
    box = visitor.page.locator(selector).bounding_box()
    assert box is not None, selector
    return _Box(box["y"], box["y"] + box["height"])


def _violations(visitor: Visitor) -> list[Any]:
    found: list[Any] = visitor.page.evaluate(_AXE)
    return found


def _overflow(visitor: Visitor) -> list[Any]:
    found: list[Any] = visitor.page.evaluate(
        """() => [...document.querySelectorAll("main *, header *, footer *")]
          .filter((each) => each.checkVisibility() && !each.closest("svg, .visually-hidden"))
          .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5)
          .map((each) => each.outerHTML.slice(0, 80))"""
    )
    return found
