"""Takes the documentation's pictures of the page: `python -m tests.browser.pictures`.

Needs what the browser tests need. Every picture shows a real conversion in a running local cloud;
only the many characters of `page-many` are invented.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from playwright.sync_api import sync_playwright

from tests.browser.browsers import chromium_path, microphone_flags
from tests.browser.crowds import crowd
from tests.browser.endpoints import ROOT, Endpoints, running_cloud
from tests.browser.sounds import SAMPLE, decode, silence, write_wav
from tests.browser.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser

FOLDER: Final = ROOT / "docs" / "images"
_DESK: Final = {"width": 1280, "height": 820}
_PHONE: Final = {"width": 390, "height": 844}

_SCENES: Final = ("start", "recording", "sending", "done", "problem", "many")
_TEXT: Final = "はじめまして、ひなです。入力した文も、この声でお話しします。"
_MANY: Final = 300
_SETTLE_MILLISECONDS: Final = 800


class Look(NamedTuple):
    """How a browser looks at the page, and the scenes that are worth a picture."""

    context: Mapping[str, Any]
    scenes: tuple[str, ...]


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


def main() -> None:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoints", type=Path, help="endpoints.json of a running local cloud")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the pictures")
    parser.add_argument("looks", nargs="*", help=f"some of {', '.join(LOOKS)}")
    wanted = parser.parse_args()
    wanted.output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hello = write_wav(scratch / "hello.wav", decode(SAMPLE))
        muted = write_wav(scratch / "muted.wav", silence(2))
        cloud = (
            Endpoints.read(wanted.endpoints)
            if wanted.endpoints
            else stack.enter_context(running_cloud(scratch))
        )
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=microphone_flags(hello)
        )
        for look in wanted.looks or LOOKS:
            _take(browser, cloud, look, muted, wanted.output)
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
