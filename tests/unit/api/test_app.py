"""Pages of other sites change nothing; programs and our own pages do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.ports import CertificatesUnavailableError, TokenRefusedError
from shared.voices.voice import new_voice_id
from tests.unit.api.stage import FORM, SITE, ApiStage, problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx


STRANGER = "https://stranger.example"


async def ask(stage: ApiStage, method: str, headers: dict[str, str]) -> httpx.Response:
    path = "/api/v1/voices" + (f"/{new_voice_id()}" if method == "DELETE" else "")
    form = FORM if method == "PUT" else {}
    return await stage.http.request(method, path, headers={**form, **headers}, content=b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": STRANGER, "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null"},
        {"Origin": f"{SITE}.stranger.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_site_changes_nothing_but_may_read(
    stage: ApiStage, headers: dict[str, str]
) -> None:
    for method in ("POST", "PUT", "DELETE"):
        problem(await ask(stage, method, headers), 403, "origin_refused")
    assert (await stage.http.get("/api/v1/characters", headers=headers)).status_code == 200
    assert (stage.voices.count, stage.container.warm_ups) == (0, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": SITE, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://api.test"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_programs_and_pages_of_allowed_sites_create_voices(
    stage: ApiStage, headers: dict[str, str]
) -> None:
    assert (await ask(stage, "POST", headers)).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""],
)
async def test_a_voice_is_created_with_json_or_with_nothing(
    stage: ApiStage, content_type: str
) -> None:
    refused = await ask(stage, "POST", {"Content-Type": content_type})

    problem(refused, 415, "unsupported_media_type")
    assert stage.voices.count == 0  # nothing was created


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_page_cannot_call_this_machine_under_a_name_of_its_own(
    stage: ApiStage, method: str
) -> None:
    """DNS rebinding: the page's name has the machine's address, so it is the page's own origin."""
    stage.allowed_hosts = ("voice.example",)
    path = {"GET": "characters", "POST": "voices"}[method]
    for name, is_served in {
        "attacker.example": False,
        "127.0.0.1.attacker.example": False,
        "localhost.": False,
        "127.0.0.1:8000": True,
        "[::1]:8000": True,
        "localhost": True,
        "voice.example": True,
    }.items():
        headers = {"Host": name, "Origin": f"http://{name}", "Sec-Fetch-Site": "same-origin"}
        answer = await stage.http.request(method, f"/api/v1/{path}", headers=headers)
        assert (answer.status_code != 421) is is_served
    assert stage.voices.count == (4 if method == "POST" else 0)


HEADER = "X-Firebase-AppCheck"
UNKNOWN = "a2d3c7e2-6b0f-4f0a-9d93-0d2f0b7ad111"


class OurPages:
    """Takes `our page` for a token of App Check."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        if authorization != "our page":
            raise TokenRefusedError("the token is not valid")
        return {"sub": "app"}


@pytest.mark.parametrize("headers", [{}, {HEADER: "somebody else's"}])
async def test_only_a_page_of_this_site_sends_requests_about_voices(
    headers: dict[str, str],
) -> None:
    stage = ApiStage(app_check=OurPages())
    for method, path, more in (
        ("POST", "voices", {}),
        ("PUT", "voices", FORM),
        ("GET", f"conversion/{UNKNOWN}", {}),
        ("DELETE", f"voices/{UNKNOWN}", {}),
    ):
        answer = await stage.http.request(method, f"/api/v1/{path}", headers=headers | more)
        problem(answer, 401, "app_check_refused")
    assert stage.container.warm_ups == 0

    ours = await stage.http.post("/api/v1/voices", headers={HEADER: "our page"})
    assert ours.status_code == 201
    # These are no secrets.
    assert (await stage.http.get("/api/v1/characters")).status_code == 200
    assert (await stage.http.get("/healthz")).status_code == 204


async def test_without_the_keys_of_app_check_the_client_is_told_to_ask_again() -> None:
    class NoKeys:
        async def verify(self, authorization: str | None) -> Mapping[str, Any]:
            raise CertificatesUnavailableError(f"no keys for {authorization}")

    answer = await ApiStage(app_check=NoKeys()).http.post("/api/v1/voices")

    problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"]


async def test_pages_of_this_site_may_send_a_token_and_others_get_no_permission(
    stage: ApiStage,
) -> None:
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"content-type, {HEADER.lower()}",
    }
    allowed = await stage.http.options("/api/v1/voices", headers=asked | {"Origin": SITE})
    refused = await stage.http.options("/api/v1/voices", headers=asked | {"Origin": STRANGER})

    told = allowed.headers
    assert (allowed.status_code, told["access-control-allow-origin"]) == (200, SITE)
    assert HEADER.lower() in told["access-control-allow-headers"].lower()
    methods = set(told["access-control-allow-methods"].split(", "))
    assert {"GET", "POST", "PUT", "DELETE"} <= methods
    assert refused.status_code == 400
    assert "access-control-allow-origin" not in refused.headers
