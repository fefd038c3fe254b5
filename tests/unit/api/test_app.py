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
    async with stage.client() as client:
        return await client.request(method, path, headers={**form, **headers})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": STRANGER},
        {"Origin": "null"},
        {"Origin": f"{SITE}.stranger.example"},
        {"Origin": STRANGER, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_site_changes_nothing(
    stage: ApiStage, method: str, headers: dict[str, str]
) -> None:
    problem(await ask(stage, method, headers), 403, "origin_refused")
    assert stage.voices.count == 0  # nothing was created
    assert stage.container.warm_ups == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": SITE},
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


async def test_what_only_reads_is_answered_to_every_site(stage: ApiStage) -> None:
    answer = await stage.http.get("/api/v1/characters", headers={"Origin": STRANGER})
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_page_cannot_call_this_machine_under_a_name_of_its_own(
    stage: ApiStage, method: str
) -> None:
    """DNS rebinding: the page's name has the machine's address, so it is the page's own origin."""
    headers = {"Origin": "http://attacker.example", "Sec-Fetch-Site": "same-origin"}
    path = {"GET": "characters", "POST": "voices", "DELETE": f"voices/{new_voice_id()}"}[method]
    for name, is_served in {
        "attacker.example": False,
        "127.0.0.1.attacker.example": False,
        "localhost.": False,
        "127.0.0.1:8000": True,
        "[::1]:8000": True,
        "localhost": True,
        "voice.example": True,
    }.items():
        origin = {"Origin": f"http://{name}"} if is_served else headers
        async with stage.client(allowed_hosts=("voice.example",)) as client:
            answer = await client.request(
                method, f"/api/v1/{path}", headers={"Host": name, **origin}
            )
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
    stage = ApiStage(app_check=OurPages())
    kind = FORM if method == "PUT" else {}
    answer = await stage.http.request(method, path, headers={**kind, **headers}, content=b"x")

    assert problem(answer, 401, "app_check_refused")
    assert stage.container.warm_ups == 0


async def test_a_page_of_this_site_is_let_in() -> None:
    async with ApiStage(app_check=OurPages()).client() as client:
        answer = await client.post("/api/v1/voices", headers={HEADER: "our page"})

    assert answer.status_code == 201


async def test_without_app_check_every_page_is_let_in() -> None:
    async with ApiStage().client() as client:
        answer = await client.post("/api/v1/voices")

    assert answer.status_code == 201


async def test_what_is_no_secret_is_told_to_everybody() -> None:
    async with ApiStage(app_check=OurPages()).client() as client:
        assert (await client.get("/api/v1/characters")).status_code == 200
        assert (await client.get("/healthz")).status_code == 204


async def test_when_the_keys_cannot_be_had_the_client_is_told_to_ask_again() -> None:
    async with ApiStage(app_check=NoKeys()).client() as client:
        answer = await client.post("/api/v1/voices", headers={HEADER: "our page"})

    assert problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"]


async def test_a_browser_may_send_the_token() -> None:
    asked = {
        "Origin": SITE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"content-type, {HEADER.lower()}",
    }
    async with ApiStage(app_check=OurPages()).client() as client:
        answer = await client.options("/api/v1/voices", headers=asked)

    assert answer.status_code == 200
    assert HEADER.lower() in answer.headers["access-control-allow-headers"].lower()
