"""Choosing among many characters, and typing instead of speaking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
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
    visitor.answer("**/api/v1/characters", "GET", json={"characters": _many(cloud)})
    visitor.open()
    visitor.page.evaluate(axe)
    visitor.page.focus("#search")
    # Kana of either kind match, and so do parts of the credit.
    visitor.page.keyboard.type("せな 277")
    assert visitor.text("#found") == "Found: 1"
    assert visitor.page.evaluate(_VIOLATIONS) == []
    visitor.page.keyboard.press("Enter")
    assert visitor.text("h1").replace("\n", " ") == "Your words, in Sena 277\u2019s voice."
    assert "Choir of 277" in visitor.text("#credit")
    visitor.page.focus("#search")
    visitor.page.fill("#search", "nobody is called that")
    assert visitor.text("#found") == "No character is called that."
    # The chosen one stays, so that the list can still be reached with the keyboard.
    assert visitor.page.locator(".character:visible").count() == 1
    visitor.page.fill("#search", "")
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("ArrowDown")
    assert visitor.text("h1").replace("\n", " ") == "Your words, in Sena 278\u2019s voice."


def test_portraits_that_nobody_sees_are_not_fetched(
    new_visitor: OpenPage, cloud: Endpoints
) -> None:
    visitor = new_visitor()
    visitor.answer("**/api/v1/characters", "GET", json={"characters": _many(cloud)})
    visitor.open()
    visitor.page.wait_for_load_state("networkidle")
    fetched = visitor.sent("GET", "?portrait=")
    assert 0 < len(fetched) < MANY / 2


def _many(cloud: Endpoints) -> list[dict[str, Any]]:
    (first, *_) = httpx.get(f"{cloud.api}/api/v1/characters").json()["characters"]
    return [
        first
        | {
            "id": f"sena-{number}",
            "name": {"en": f"Sena {number}", "ja": f"セナ{number}"},
            "credit": f"Choir of {number}",
            "portrait_url": f"{first['portrait_url']}?portrait={number}",
        }
        for number in range(MANY)
    ]
