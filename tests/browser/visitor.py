"""A visitor of the page, controlled by the tests."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page, Request, Route

    from tests.browser.endpoints import Endpoints

CONVERSION_MILLISECONDS = 30_000
BUSY = 1013
"""The code with which the service closes a socket that it has no room for."""

_WATCH_SCENES = """
window.seen = [];
const last = {};
const note = (kind, what) => {
  if (what && last[kind] !== what) window.seen.push(what);
  last[kind] = what;
};
new MutationObserver(() => {
  const scene = document.body?.dataset.scene;
  note("scene", scene);
  if (scene !== "busy") return;
  note("stage", document.querySelector("#stages [aria-current]")?.dataset.stage);
}).observe(document, {subtree: true, childList: true, attributes: true});
"""

_DROP = """
([name, type, content]) => {
  const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    const options = { dataTransfer: data, bubbles: true, cancelable: true };
    document.querySelector("main").dispatchEvent(new DragEvent(kind, options));
  }
}
"""

_HOLD_FIRST_DECODING = """
() => {
  const decode = OfflineAudioContext.prototype.decodeAudioData;
  let letGo;
  const waited = new Promise((resolve) => { letGo = resolve; });
  OfflineAudioContext.prototype.decodeAudioData = function (content) {
    OfflineAudioContext.prototype.decodeAudioData = decode;
    const decoded = waited.then(() => decode.call(this, content));
    window.held = () => { letGo(); return decoded.then(() => undefined); };
    return decoded;
  };
}
"""


@dataclass(slots=True)
class HeldRequest:
    """A request that continues only when the test lets it."""

    routes: list[Route]

    def go_on(self) -> None:
        self.routes[0].continue_()

    def break_off(self) -> None:
        self.routes[0].abort("internetdisconnected")


# Without slots: Playwright keeps its wrappers of a bound method in its object.
@dataclass
class Visitor:
    """One visitor with one page.

    Attributes:
        requests: every request that the page has sent, in order.
    """

    page: Page
    context: BrowserContext
    cloud: Endpoints
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.add_init_script(_WATCH_SCENES)
        self.page.on("request", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._listen(message.type, message.text))

    def open(self) -> None:
        """Open the page and wait until it can be used."""
        self.page.goto(self.cloud.page)
        self.wait_for("start")

    def wait_for(self, scene: str, timeout: float = CONVERSION_MILLISECONDS) -> None:
        self.page.wait_for_selector(f"body[data-scene={scene}]", timeout=timeout)

    def press(self) -> None:
        """Press the main button, or the one beside the text."""
        self.page.click("#main" if self.page.is_visible("#main") else "#say")

    def speak(self, seconds: float, meanwhile: Callable[[str], None] | None = None) -> None:
        """Record for this many seconds of the page's countdown."""
        self.press()
        self.wait_for("recording")
        self.page.wait_for_function(
            "(left) => Number(document.querySelector('#countdown').textContent || 99) <= left",
            arg=10 - seconds,
        )
        if meanwhile is not None:
            meanwhile("recording")
        self.press()

    def drop(self, path: Path, content_type: str = "") -> None:
        content = base64.b64encode(path.read_bytes()).decode()
        self.page.evaluate(_DROP, [path.name, content_type, content])

    def choose(self, path: Path) -> None:
        self.page.set_input_files("#file", path)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def problem(self) -> str:
        self.wait_for("problem")
        return self.text("h1")

    def wait_until_played(self) -> None:
        self.page.wait_for_function(
            """() => {
              const row = document.querySelector("#converted");
              const icon = row.querySelector("use").getAttribute("href");
              return icon === "#icon-play" && row.style.getPropertyValue("--played") === "1.0000";
            }"""
        )

    def download(self, folder: Path) -> Path:
        with self.page.expect_download() as waiting:
            self.page.click("#download")
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    def seen(self) -> list[str]:
        scenes: list[str] = self.page.evaluate("window.seen")
        return scenes

    def sent(self, method: str, part: str) -> list[Request]:
        """Return the page's requests with a method whose address contains a part."""
        return [each for each in self.requests if each.method == method and part in each.url]

    def wishes(self) -> list[dict[str, Any]]:
        sent = self.sent("POST", "/api/v1/voices")
        return [json.loads(request.post_data or "{}") for request in sent]

    def voice_id(self) -> str:
        response = self.sent("POST", "/api/v1/voices")[-1].response()
        assert response is not None
        return str(response.json()["voice_id"])

    def without_live(self) -> None:
        """Let the service refuse every socket from now on, so that recordings are uploaded."""
        self.page.route_web_socket("**/live", lambda socket: socket.close(code=BUSY))

    def holding_upload(self, begin: Callable[[], None]) -> HeldRequest:
        self.without_live()
        held = self._holding("PUT", f"{self.cloud.storage}/**", begin)
        self.page.wait_for_function("() => document.body.dataset.scene === 'busy'")
        return held

    def holding_deletion(self, begin: Callable[[], None]) -> HeldRequest:
        return self._holding("DELETE", "**/api/v1/voices/*", begin)

    def holding_decoding(self, begin: Callable[[], None]) -> Callable[[], None]:
        """Start decoding with an action, hold it, and return a function that releases it."""
        self.page.evaluate(_HOLD_FIRST_DECODING)
        begin()
        self.page.wait_for_function("() => window.held !== undefined")
        return lambda: self.page.evaluate("() => window.held()")

    def answer(self, pattern: str, method: str, **response: Any) -> None:
        """Replace a service's answers from now on, with the real service's CORS headers."""
        headers = {"Access-Control-Allow-Origin": "*", **response.pop("headers", {})}

        def fulfil(route: Route) -> None:
            if route.request.method == method:
                route.fulfill(headers=headers, **response)
            else:
                route.continue_()

        self.page.route(pattern, fulfil)

    def answer_truly(self) -> None:
        self.page.unroute_all()

    def _holding(self, method: str, pattern: str, begin: Callable[[], None]) -> HeldRequest:
        held: list[Route] = []

        def hold(route: Route) -> None:
            if route.request.method == method and not held:
                held.append(route)
            else:
                route.continue_()

        self.page.route(pattern, hold)
        with self.page.expect_request(lambda request: request.method == method):
            begin()
        return HeldRequest(held)

    def _note(self, request: Request) -> None:
        self.requests.append(request)

    def _listen(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text:
            self.complaints.append(text)
