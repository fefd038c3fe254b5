"""The client as a package: a new Vite project installs its tarball and calls the api from there."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.browser.fresh_site import WEB, FreshSite, readme_example
from tests.browser.sounds import decode, median_pitch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints

_READ_RESULT = """
async () => {
  const response = await fetch(document.querySelector("audio").src);
  const bytes = new Uint8Array(await response.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, cloud: Endpoints) -> Iterator[int]:
    site = FreshSite(tmp_path_factory.mktemp("fresh-site"))
    site.install()
    with site.served(cloud.api) as port:
        yield port


def test_the_readme_shows_the_example_page() -> None:
    assert readme_example() == (WEB / "example" / "main.ts").read_text()


def test_the_readmes_example_lets_a_visitor_of_another_site_hear_the_character(
    new_visitor: OpenPage, port: int, tmp_path: Path
) -> None:
    visitor = new_visitor()
    site = f"http://127.0.0.1:{port}"
    visitor.context.grant_permissions(["microphone"], origin=site)
    visitor.page.goto(site)
    visitor.page.wait_for_load_state("networkidle")
    visitor.page.click("button")
    visitor.page.wait_for_function("document.querySelector('audio').readyState === 4")

    file = tmp_path / "result"
    file.write_bytes(base64.b64decode(visitor.page.evaluate(_READ_RESULT)))
    assert median_pitch(decode(file)) > 200
    (announced,) = visitor.sent("POST", "/api/v1/voices")
    assert announced.all_headers()["origin"] == site
    assert not announced.url.startswith(site)


def test_a_page_of_a_site_that_is_not_allowed_reads_why(
    new_visitor: OpenPage, port: int, cloud: Endpoints
) -> None:
    visitor = new_visitor()
    site = f"http://shop.localhost:{port}"
    visitor.page.goto(f"{site}/check.html")
    visitor.page.wait_for_function("window.convert !== undefined")

    told = visitor.page.evaluate(
        "(site) => window.convert(site, 'AAAA', 'audio/wav').catch((error) => error.message)",
        cloud.site(),
    )

    assert f"does not allow pages of {site}" in told
    # The browser reports the refusal on the console.
    visitor.complaints[:] = [each for each in visitor.complaints if "CORS policy" not in each]
