"""The client as a package: a new project installs its tarball and converts a recording with it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.browser.fresh_site import FreshSite
from tests.browser.sounds import decode, median_pitch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints


@pytest.fixture(scope="module")
def fresh_site(tmp_path_factory: pytest.TempPathFactory) -> FreshSite:
    site = FreshSite(tmp_path_factory.mktemp("fresh-site"))
    site.install_and_build()
    return site


def test_a_fresh_project_with_the_tarball_converts_a_recording(
    fresh_site: FreshSite, new_visitor: OpenPage, cloud: Endpoints, hello: Path, tmp_path: Path
) -> None:
    page = new_visitor().page
    fresh_site.open(page, cloud.api)

    audio = base64.b64encode(hello.read_bytes()).decode()
    result = page.evaluate(
        "([site, audio]) => window.convert(site, audio, 'audio/wav')", [cloud.site(), audio]
    )

    file = tmp_path / "result.wav"
    file.write_bytes(httpx.get(result["url"]).content)
    assert median_pitch(decode(file)) > 250


def test_the_tarball_brings_the_listener_for_visitors_who_sign_in(
    fresh_site: FreshSite, new_visitor: OpenPage, cloud: Endpoints
) -> None:
    page = new_visitor().page
    fresh_site.open(page, cloud.api)

    assert page.evaluate("window.hasFirestore") is True
