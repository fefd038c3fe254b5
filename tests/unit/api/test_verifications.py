"""`POST /verifications` of the api."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from functions.api.limits import RequestLimits
from functions.api.verifications import MOST_BYTES
from tests.unit.api.stage import SITE, ApiStage

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "/api/v1/verifications"
FOUND: dict[str, Any] = {
    "verdict": "copy",
    "sentences": {"en": "Made here.", "ja": "ここで作られました。"},
    "credentials": {
        "state": "missing",
        "made_with": "",
        "character": "",
        "issuer": "",
        "signed_at": "",
        "forbidden_uses": [],
    },
    "watermark": {"state": "found", "bits": 7, "chance": 1e-9},
}


class FakeVerifier:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, status: int = 200, answer: Any = FOUND) -> None:
        self.status = status
        self.answer = answer
        self.files: list[bytes] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://convert.test/verifications"
        self.files.append(request.content)
        return httpx.Response(self.status, json=self.answer)


async def post(stage: ApiStage, content: bytes, **headers: str) -> httpx.Response:
    return await stage.http.post(ADDRESS, content=content, headers=headers)


async def test_the_api_passes_a_file_on_and_answers_what_was_found(tmp_path: Path) -> None:
    converter = FakeVerifier()
    sound = b"RIFF" + bytes(100_000)

    response = await post(
        ApiStage(tmp_path, verifying=converter), sound, **{"Content-Type": "audio/wav"}
    )

    assert (response.status_code, response.json()) == (200, FOUND)
    assert converter.files == [sound]


async def test_a_file_that_is_no_sound_is_a_problem_with_the_converters_code(
    tmp_path: Path,
) -> None:
    converter = FakeVerifier(422, {"code": "too_long", "message": "The file is too long."})

    response = await post(ApiStage(tmp_path, verifying=converter), b"x")

    assert response.status_code == 422
    assert (response.json()["code"], response.json()["detail"]) == (
        "too_long",
        "The file is too long.",
    )


async def test_too_large_a_file_does_not_reach_the_converter(tmp_path: Path) -> None:
    converter = FakeVerifier()
    response = await post(ApiStage(tmp_path, verifying=converter), bytes(MOST_BYTES + 1))

    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert converter.files == []


@pytest.mark.parametrize("status", [503, 500, 404])
async def test_a_converter_that_is_busy_or_gone_is_told(tmp_path: Path, status: int) -> None:
    response = await post(ApiStage(tmp_path, verifying=FakeVerifier(status, {})), b"x")

    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert response.headers["Retry-After"] == "5"


async def test_a_converter_out_of_reach_is_told(tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no", request=request)

    response = await post(ApiStage(tmp_path, verifying=refuse), b"x")

    assert (response.status_code, response.json()["code"]) == (503, "unavailable")


async def test_files_count_as_requests_do(tmp_path: Path) -> None:
    limits = RequestLimits(per_minute=12, waiting=0, trusted_proxies=0)
    stage = ApiStage(tmp_path, limits=limits, verifying=FakeVerifier())

    statuses = [(await post(stage, b"x")).status_code for _ in range(3)]

    assert statuses[0] == 200
    assert 429 in statuses


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x"])
async def test_what_any_site_can_send_without_permission_is_refused(
    tmp_path: Path, content_type: str
) -> None:
    converter = FakeVerifier()
    headers = {"Content-Type": content_type, "Origin": SITE}

    response = await post(ApiStage(tmp_path, verifying=converter), b"x", **headers)

    assert response.status_code == 415
    assert converter.files == []
