"""Pages of other sites change nothing; programs and our own pages do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.voices.voice import new_voice_id
from tests.unit.api.stage import FORM, SITE, Stage, problem

if TYPE_CHECKING:
    import httpx

STRANGER = "https://stranger.example"


async def ask(stage: Stage, method: str, headers: dict[str, str]) -> httpx.Response:
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
    stage: Stage, method: str, headers: dict[str, str]
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
    stage: Stage, headers: dict[str, str]
) -> None:
    assert (await ask(stage, "POST", headers)).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""],
)
async def test_a_voice_is_created_with_json_or_with_nothing(
    stage: Stage, content_type: str
) -> None:
    refused = await ask(stage, "POST", {"Content-Type": content_type})

    problem(refused, 415, "unsupported_media_type")
    assert stage.voices.count == 0  # nothing was created


async def test_what_only_reads_is_answered_to_every_site(stage: Stage) -> None:
    async with stage.client() as client:
        answer = await client.get("/api/v1/characters", headers={"Origin": STRANGER})
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_page_cannot_call_this_machine_under_a_name_of_its_own(
    stage: Stage, method: str
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
