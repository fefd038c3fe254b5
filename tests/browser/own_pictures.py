"""Takes the documentation's pictures of the page of own characters; `pictures` calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from playwright.sync_api import expect

from tests.browser.browsers import chromium_path, microphone_flags
from tests.browser.owner import (
    agree_to_the_terms,
    read_and_keep,
    serving,
    sign_in,
    write_long_recordings,
    write_reading,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from playwright.sync_api import Page, Playwright

    from tests.browser.endpoints import Endpoints

_SETTLE_MILLISECONDS: Final = 800
_TRAINING_MILLISECONDS: Final = 60_000


class Look(NamedTuple):
    """How a browser looks at the page, and the scenes that are worth a picture."""

    context: Mapping[str, Any]
    scenes: tuple[str, ...]


def take_own_pictures(
    playwright: Playwright, looks: Mapping[str, Look], scratch: Path, folder: Path
) -> None:
    """Take the pictures of some looks, each by a visitor who makes a character."""
    microphone = write_reading(scratch / "reading.wav")
    recordings = write_long_recordings(scratch)
    browser = playwright.chromium.launch(
        executable_path=chromium_path(), args=microphone_flags(microphone)
    )
    told = scratch / "own"
    told.mkdir()
    with serving(told, "--sign-in") as cloud:
        for name, look in looks.items():
            context = browser.new_context(**look.context)
            context.grant_permissions(["microphone"])
            _take(_Photographer(context.new_page(), name, look.scenes, folder), cloud, recordings)
            context.close()
    browser.close()


@dataclass(frozen=True)
class _Photographer:
    page: Page
    look: str
    scenes: tuple[str, ...]
    folder: Path

    def shoot(self, scene: str) -> None:
        if scene in self.scenes:
            self.page.wait_for_timeout(_SETTLE_MILLISECONDS)
            self.page.screenshot(path=self.folder / f"{self.look}-{scene}.png")


def _take(by: _Photographer, cloud: Endpoints, recordings: list[Path]) -> None:
    page = by.page
    page.goto(f"{cloud.page}own.html")
    page.wait_for_selector("#sign-in:visible")
    by.shoot("sign-in")
    sign_in(page, "#create-account", f"ada@{by.look}.example")
    page.wait_for_selector("#terms:visible")
    by.shoot("terms")
    agree_to_the_terms(page, page.evaluate("document.documentElement.lang"))
    read_and_keep(page)
    page.set_input_files("#files", recordings[:4])
    expect(page.locator("#recordings-title")).to_contain_text("5", timeout=_TRAINING_MILLISECONDS)
    page.locator("#dial").scroll_into_view_if_needed()
    by.shoot("reading")
    page.click("#to-consent")
    read_and_keep(page)
    page.click("#train", timeout=_TRAINING_MILLISECONDS)
    page.wait_for_selector("body[data-scene=ready]", timeout=_TRAINING_MILLISECONDS)
    by.shoot("done")
    page.click("#card summary")
    page.wait_for_selector("#pairs li")
    page.locator("#card").scroll_into_view_if_needed()
    by.shoot("card")
