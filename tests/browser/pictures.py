"""Takes the documentation's pictures of the page: `python -m tests.browser.pictures`.

Needs what the browser tests need. Every picture shows a real conversion in a running local cloud;
only the many characters of `page-many` are invented. The character that the page of own characters
shows is not trained: its bundle, figures and pairs are those of the tests.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from tests.browser.browsers import chromium_path, microphone_flags
from tests.browser.crowds import crowd
from tests.browser.endpoints import ROOT, Endpoints, running_cloud
from tests.browser.own_pictures import Look, take_own_pictures
from tests.browser.sounds import SAMPLE, decode, silence, write_wav
from tests.browser.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from playwright.sync_api import Browser, Playwright

FOLDER: Final = ROOT / "docs" / "images"
_DESK: Final = {"width": 1280, "height": 820}
_PHONE: Final = {"width": 390, "height": 844}

_SCENES: Final = ("start", "recording", "sending", "done", "problem", "many")
_TEXT: Final = "はじめまして、ひなです。入力した文も、この声でお話しします。"
_MANY: Final = 300
_SETTLE_MILLISECONDS: Final = 800


LOOKS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "page": Look({"viewport": _DESK, "locale": "en-GB"}, _SCENES),
        "page-dark": Look(
            {"viewport": _DESK, "locale": "en-GB", "color_scheme": "dark"}, ("recording", "done")
        ),
        "page-origin": Look({"viewport": _DESK, "locale": "en-GB"}, ("verify",)),
        "page-ja": Look({"viewport": _DESK, "locale": "ja-JP"}, ("start", "typed")),
        "page-phone": Look({"viewport": _PHONE, "locale": "en-GB"}, ("start", "sending")),
        "page-phone-ja-dark": Look(
            {"viewport": _PHONE, "locale": "ja-JP", "color_scheme": "dark"}, ("recording", "done")
        ),
    }
)
OWN_LOOKS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "own-voice": Look({"viewport": _DESK, "locale": "en-GB"}, ("reading", "done", "card")),
        "own-voice-phone": Look(
            {"viewport": _PHONE, "device_scale_factor": 2, "locale": "en-GB"}, ("sign-in",)
        ),
        "own-voice-phone-ja": Look(
            {"viewport": _PHONE, "device_scale_factor": 2, "locale": "ja-JP"}, ("reading",)
        ),
    }
)


def main() -> None:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoints", type=Path, help="endpoints.json of a running local cloud")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the pictures")
    parser.add_argument("looks", nargs="*", help=f"some of {', '.join([*LOOKS, *OWN_LOOKS])}")
    wanted = parser.parse_args()
    wanted.output.mkdir(parents=True, exist_ok=True)
    looks = wanted.looks or [*LOOKS, *OWN_LOOKS]
    own = {name: look for name, look in OWN_LOOKS.items() if name in looks}
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        if firsts := [name for name in looks if name in LOOKS]:
            _take_first_page(playwright, firsts, wanted.endpoints, Path(scratch), wanted.output)
        if own:
            take_own_pictures(playwright, own, Path(scratch), wanted.output)


def _take_first_page(
    playwright: Playwright,
    looks: Sequence[str],
    endpoints: Path | None,
    scratch: Path,
    folder: Path,
) -> None:
    hello = write_wav(scratch / "hello.wav", decode(SAMPLE))
    muted = write_wav(scratch / "muted.wav", silence(2))
    with ExitStack() as stack:
        cloud = (
            Endpoints.read(endpoints) if endpoints else stack.enter_context(running_cloud(scratch))
        )
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=microphone_flags(hello)
        )
        for look in looks:
            _take(browser, cloud, look, muted, folder)
        browser.close()


def _take(browser: Browser, cloud: Endpoints, look: str, muted: Path, folder: Path) -> None:
    scale = 2 if LOOKS[look].context["viewport"] is _PHONE else 1
    context = browser.new_context(device_scale_factor=scale, **LOOKS[look].context)
    context.grant_permissions(["microphone"])
    visitor = Visitor(context.new_page(), context, cloud)
    visitor.watch()

    def shoot(scene: str) -> None:
        if scene not in LOOKS[look].scenes:
            return
        if scene not in ("done", "typed"):
            visitor.page.wait_for_timeout(_SETTLE_MILLISECONDS)
        visitor.page.screenshot(path=folder / f"{look}-{scene}.png")

    visitor.open()
    shoot("start")
    if "typed" in LOOKS[look].scenes:
        _type(visitor)
        shoot("typed")
        visitor.open()
    held = visitor.holding_upload(lambda: visitor.speak(seconds=5, meanwhile=shoot))
    shoot("sending")
    held.go_on()
    visitor.wait_for("done")
    _wait_until_playing(visitor)
    shoot("done")
    visitor.drop(muted)
    visitor.wait_for("problem")
    shoot("problem")
    if "verify" in LOOKS[look].scenes:
        visitor.open()
        visitor.speak(seconds=5)
        visitor.wait_for("done")
        _verify(visitor, folder / f"{look}-verify.png")
    if "many" in LOOKS[look].scenes:
        characters = {"characters": crowd(cloud, _MANY)}
        visitor.answer("**/api/v1/characters", "GET", json=characters)
        visitor.open()
        visitor.page.locator("#characters").scroll_into_view_if_needed()
        shoot("many")
    context.close()


def _verify(visitor: Visitor, picture: Path) -> None:
    """Ask whether the visitor's own result was made here, and picture the answer."""
    with tempfile.TemporaryDirectory() as scratch:
        result = visitor.download(Path(scratch))
        visitor.page.locator("#verify summary").click()
        visitor.page.set_input_files("#verify-file", result)
        visitor.page.wait_for_selector("#verify-answer[data-verdict=unchanged]", timeout=60_000)
    visitor.page.locator("#verify").scroll_into_view_if_needed()
    visitor.page.wait_for_timeout(_SETTLE_MILLISECONDS)
    visitor.page.screenshot(path=picture, clip={"x": 0, "y": 530, "width": 900, "height": 290})


def _type(visitor: Visitor) -> None:
    visitor.page.check("[name=mode][value=type]", force=True)
    visitor.page.fill("#text", _TEXT)
    visitor.press()
    visitor.wait_for("done")
    _wait_until_playing(visitor)


def _wait_until_playing(visitor: Visitor) -> None:
    visitor.page.wait_for_function(
        "() => document.querySelector('#converted').style.getPropertyValue('--played') > 0.3"
    )


if __name__ == "__main__":
    main()
