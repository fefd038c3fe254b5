"""Choosing among many characters, and typing instead of speaking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.crowds import crowd, only_mei_types
from tests.browser.sounds import decode, median_pitch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints

MANY = 400
_VIOLATIONS = """
async () => (await axe.run({ resultTypes: ["violations"] })).violations.map(({ id }) => id)
"""


def test_one_of_many_characters_is_found_by_its_name_and_chosen_with_the_keyboard(
    new_visitor: OpenPage, cloud: Endpoints, axe: str
) -> None:
    visitor = new_visitor()
    visitor.answer("**/api/v1/characters", "GET", json={"characters": crowd(cloud, MANY)})
    visitor.open()
    visitor.page.wait_for_load_state("networkidle")
    assert 0 < len(visitor.sent("GET", "?of=")) < MANY / 8, "only portraits that are seen"
    visitor.page.evaluate(axe)
    visitor.page.focus("#search")
    # Kana of either kind match, and so do parts of the credit.
    visitor.page.keyboard.type("せな 14")
    assert visitor.text("#found") == "1 found"
    assert visitor.page.evaluate(_VIOLATIONS) == []
    visitor.page.keyboard.press("Enter")
    assert visitor.text("h1").replace("\n", " ") == "Your words, in Sena 14\u2019s voice."
    visitor.page.click("#credit summary")
    assert "Voice of Sena 14" in visitor.text("#credit")
    visitor.page.focus("#search")
    visitor.page.fill("#search", "nobody is called that")
    assert visitor.text("#found") == "No character matches."
    # One sample can be reached with the keyboard, not hundreds.
    assert visitor.page.locator(".sample:not([tabindex='-1'])").count() <= 1
    # The chosen one stays, so that the list can still be reached with the keyboard.
    assert visitor.page.locator(".character:visible").count() == 1
    visitor.page.fill("#search", "")
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("ArrowDown")
    assert visitor.text("h1").replace("\n", " ") == "Your words, in Tove 14\u2019s voice."


def test_a_sample_of_every_character_is_heard_before_anybody_speaks(
    open_page: OpenPage, axe: str
) -> None:
    visitor = open_page(microphone=None)
    page = visitor.page
    page.evaluate(axe)
    assert page.locator(".sample").count() == page.locator(".character").count()
    button = page.get_by_role("button", name="Hear Ned")
    button.click()
    page.wait_for_selector(".sample[data-of=ned][aria-pressed=true]", timeout=20_000)
    (wish,) = visitor.wishes()
    assert (wish["character"], wish["language"]) == ("ned", "en")
    assert wish["text"].startswith("Hello, I am Ned.")
    kinds = page.locator(".kind").all_inner_texts()
    assert "A man\u2019s low, calm voice · English and Japanese" in kinds
    assert page.evaluate(_VIOLATIONS) == []
    # The visitor is still where everybody begins, and nothing is left of the sample.
    assert visitor.text("h1").replace("\n", " ") == "Your words, in Hina\u2019s voice."
    assert not page.is_visible("#visit")
    assert len(visitor.sent("DELETE", visitor.voice_id())) == 1

    button.click()
    page.wait_for_selector(".sample[data-of=ned][aria-pressed=false]")
    button.click()
    page.wait_for_selector(".sample[data-of=ned][aria-pressed=true]")
    assert len(visitor.wishes()) == 1


def test_a_typed_text_is_spoken_as_it_is_wanted_and_can_be_deleted(
    open_page: OpenPage, axe: str, tmp_path: Path
) -> None:
    visitor = open_page(microphone=None)
    visitor.page.evaluate(axe)
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.press()
    # Nothing has been typed: the field says so, and nothing is sent.
    assert visitor.page.evaluate("document.activeElement.id") == "text"
    visitor.page.click(".wishes summary")
    visitor.page.fill("#wish-speed", "1.5")
    visitor.page.fill("#text", "おはようございます、ひなです。안녕。")
    assert visitor.text("#text-left").startswith("18 of ")
    assert visitor.page.evaluate(_VIOLATIONS) == []
    visitor.page.focus("#text")
    visitor.page.keyboard.press("Control+Enter")
    visitor.wait_for("done")
    assert visitor.text("h1") == "Hina says it."
    assert visitor.page.evaluate(_VIOLATIONS) == []
    assert visitor.text("#unread") == "Left out, because no voice here reads it: Korean."
    assert not visitor.page.is_visible("#own")
    assert median_pitch(decode(visitor.download(tmp_path))) > 200
    (wish,) = visitor.wishes()
    assert (wish["text"], wish["speed"]) == ("おはようございます、ひなです。안녕。", 1.5)
    assert "content_type" not in wish
    with visitor.page.expect_response(lambda response: response.request.method == "DELETE"):
        visitor.page.click("#delete")
    visitor.wait_for("start")
    visitor.page.fill("#text", "!?")
    visitor.press()
    assert visitor.problem() == "There is nothing to say."


def test_a_character_that_cannot_speak_text_says_so_and_is_marked(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    visitor = new_visitor(microphone=None)
    visitor.answer("**/api/v1/characters", "GET", json=only_mei_types(cloud))
    visitor.open()
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.page.fill("#text", "おはようございます。")
    visitor.page.check("[name=character][value=ned]", force=True)
    assert visitor.text("#status").startswith("Ned cannot speak typed text.")
    assert visitor.page.is_disabled("#say")
    assert visitor.page.input_value("#text") == "おはようございます。"
    marks = visitor.page.locator(".inability:visible").all_inner_texts()
    assert "no typed text" in marks
    assert "no typed text" in visitor.page.inner_text(".card:has([value=ned])")
    assert "no typed text" not in visitor.page.inner_text(".card:has([value=mei])")
    visitor.page.check("[name=character][value=mei]", force=True)
    assert visitor.text("#status") == ""
    visitor.press()
    visitor.wait_for("done")


def test_another_text_is_spoken_with_the_button_beside_it(open_page: OpenPage) -> None:
    visitor = open_page(microphone=None)
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.page.fill("#text", "おはようございます。")
    visitor.press()
    visitor.wait_for("done")
    visitor.page.fill("#text", "おやすみなさい。")
    assert not visitor.page.is_visible("#main")
    assert visitor.text("#say") == "Say it"
    visitor.press()
    visitor.wait_for("busy")
    visitor.wait_for("done")
    assert [wish["text"] for wish in visitor.wishes()] == [
        "おはようございます。",
        "おやすみなさい。",
    ]
