"""A real local cloud, a real browser, and visitors with a recorded voice as their microphone."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.browsers import chromium_path, microphone_flags
from tests.browser.endpoints import ROOT, Endpoints, running_cloud
from tests.browser.owner import serving, write_long_recordings, write_reading
from tests.browser.sounds import SAMPLE, decode, silence, write_wav
from tests.browser.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Playwright

WEB = ROOT / "web" / "page"


OpenPage: TypeAlias = "Callable[..., Visitor]"
"""Opens the page for a new visitor, with the options of `visitor_at`."""

NewVisitorAt: TypeAlias = "Callable[..., Visitor]"
"""Makes a visitor of a local cloud before the page is opened.

`microphone` is a WAV file, or None for no microphone.
"""


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """A local cloud; VOICE_AVATAR_ENDPOINTS may name the endpoints.json of a running one."""
    given = os.environ.get("VOICE_AVATAR_ENDPOINTS")
    if given:
        yield Endpoints.read(Path(given))
        return
    with running_cloud(tmp_path_factory.mktemp("cloud")) as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's sample recording as a WAV file for the microphone."""
    return write_wav(tmp_path_factory.mktemp("voices") / "hello.wav", decode(SAMPLE))


@pytest.fixture(scope="session")
def muted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wav(tmp_path_factory.mktemp("voices") / "muted.wav", silence(5))


@pytest.fixture(scope="session")
def own_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """A local cloud that offers own characters; its trainer copies a bundle."""
    with serving(tmp_path_factory.mktemp("own-voice")) as endpoints:
        yield endpoints


@pytest.fixture
def training_cloud(tmp_path: Path, trainer: Path) -> Iterator[Endpoints]:
    """The same, but its trainer trains, though shortly."""
    with serving(tmp_path, "--python", str(trainer)) as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A microphone before which somebody waits, reads a sentence, and waits again."""
    return write_reading(tmp_path_factory.mktemp("voices") / "reading.wav")


@pytest.fixture(scope="session")
def long_recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four minutes that the owner has recorded before."""
    return write_long_recordings(tmp_path_factory.mktemp("recordings"))


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def launch(playwright: Playwright) -> Iterator[Callable[[Path | None], Browser]]:
    """Browsers by the recording of their microphone, which a browser cannot change."""
    browsers: dict[Path | None, Browser] = {}

    def launch(microphone: Path | None) -> Browser:
        if microphone not in browsers:
            browsers[microphone] = playwright.chromium.launch(
                executable_path=chromium_path(), args=microphone_flags(microphone)
            )
        return browsers[microphone]

    yield launch
    for browser in browsers.values():
        browser.close()


@pytest.fixture
def visitor_at(launch: Callable[[Path | None], Browser], hello: Path) -> Iterator[NewVisitorAt]:
    """Visitors of any local cloud before their page is opened."""
    visitors: list[Visitor] = []

    def new(
        cloud: Endpoints,
        *,
        microphone: Path | None = hello,
        permission: str = "granted",
        **context: Any,
    ) -> Visitor:
        browser = launch(microphone)
        # What a service worker fetches, no test could answer in the place of a service.
        usual = {"locale": "en-GB", "service_workers": "block"}
        opened = browser.new_context(**{**usual, **context})
        visitor = Visitor(opened.new_page(), opened, cloud)
        session = opened.new_cdp_session(visitor.page)
        target = session.send("Target.getTargetInfo")["targetInfo"]
        session.send(
            "Browser.setPermission",
            {
                "permission": {"name": "microphone"},
                "setting": permission,
                "origin": cloud.api,
                "browserContextId": target["browserContextId"],
            },
        )
        visitor.watch()
        visitors.append(visitor)
        return visitor

    yield new
    for visitor in visitors:
        visitor.context.close()
        assert visitor.complaints == []


@pytest.fixture
def new_visitor(visitor_at: NewVisitorAt, cloud: Endpoints) -> OpenPage:
    """Visitors before their page is opened, for tests that prepare something first."""
    return partial(visitor_at, cloud)


@pytest.fixture
def open_page(new_visitor: OpenPage) -> OpenPage:
    def opened(**options: Any) -> Visitor:
        visitor = new_visitor(**options)
        visitor.open()
        return visitor

    return opened


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("harness")
    _npm(
        "exec", "--", "vite", "build", "--config", "vite.harness.config.ts", "--outDir", str(folder)
    )
    return (folder / "harness.iife.js").read_text()


@pytest.fixture(scope="session")
def page_size() -> str:
    return _npm("run", "--silent", "size")


@pytest.fixture(scope="session")
def axe() -> str:
    return (WEB.parent / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _npm(*arguments: str) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.fail("npm is missing: install Node.js 20 or newer")
    ended = subprocess.run([npm, *arguments], cwd=WEB, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
