from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.ports.tokens import CertificatesUnavailableError, TokenRefusedError
from tests.unit.api.stage import FORM, SITE, Stage, problem

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER = "X-Firebase-AppCheck"
UNKNOWN = "a2d3c7e2-6b0f-4f0a-9d93-0d2f0b7ad111"


class OurPages:
    """Takes `our page` for a token of App Check."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        if authorization != "our page":
            raise TokenRefusedError("the token is not valid")
        return {"sub": "app"}


class NoKeys:
    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        raise CertificatesUnavailableError(f"no keys for {authorization}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/voices"),
        ("PUT", "/api/v1/voices"),
        ("GET", f"/api/v1/conversion/{UNKNOWN}"),
        ("DELETE", f"/api/v1/voices/{UNKNOWN}"),
    ],
)
@pytest.mark.parametrize("headers", [{}, {HEADER: "somebody else's"}])
async def test_a_request_about_voices_that_comes_from_no_page_of_this_site_is_refused(
    method: str, path: str, headers: dict[str, str]
) -> None:
    stage = Stage(app_check=OurPages())
    async with stage.client() as client:
        kind = FORM if method == "PUT" else {}
        answer = await client.request(method, path, headers={**kind, **headers}, content=b"x")

    assert problem(answer, 401, "app_check_refused")
    assert stage.container.warm_ups == 0


async def test_a_page_of_this_site_is_let_in() -> None:
    async with Stage(app_check=OurPages()).client() as client:
        answer = await client.post("/api/v1/voices", headers={HEADER: "our page"})

    assert answer.status_code == 201


async def test_without_app_check_every_page_is_let_in() -> None:
    async with Stage().client() as client:
        answer = await client.post("/api/v1/voices")

    assert answer.status_code == 201


async def test_what_is_no_secret_is_told_to_everybody() -> None:
    async with Stage(app_check=OurPages()).client() as client:
        assert (await client.get("/api/v1/characters")).status_code == 200
        assert (await client.get("/healthz")).status_code == 204


async def test_when_the_keys_cannot_be_had_the_client_is_told_to_ask_again() -> None:
    async with Stage(app_check=NoKeys()).client() as client:
        answer = await client.post("/api/v1/voices", headers={HEADER: "our page"})

    assert problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"]


async def test_a_browser_may_send_the_token() -> None:
    asked = {
        "Origin": SITE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"content-type, {HEADER.lower()}",
    }
    async with Stage(app_check=OurPages()).client() as client:
        answer = await client.options("/api/v1/voices", headers=asked)

    assert answer.status_code == 200
    assert HEADER.lower() in answer.headers["access-control-allow-headers"].lower()
