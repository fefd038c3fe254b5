"""`POST /verifications` of the api."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from functions.api.verifications import MOST_BYTES
from tests.unit.api.stage import SITE, ApiStage, problem

if TYPE_CHECKING:
    from collections.abc import Callable
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


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no", request=request)


@pytest.mark.parametrize(
    ("converter", "status", "code"),
    [
        (
            FakeVerifier(422, {"code": "too_long", "message": "It is too long."}),
            422,
            "too_long",
        ),
        (FakeVerifier(503, {}), 503, "unavailable"),
        (FakeVerifier(404, {}), 503, "unavailable"),
        (unreachable, 503, "unavailable"),
    ],
)
async def test_the_converters_refusal_is_told_with_its_code_and_its_absence_as_unavailable(
    tmp_path: Path,
    converter: Callable[[httpx.Request], httpx.Response],
    status: int,
    code: str,
) -> None:
    response = await post(ApiStage(tmp_path, verifying=converter), b"x")

    detail = problem(response, status, code)
    assert (detail == "It is too long.") is (status == 422)
    assert response.headers.get("Retry-After") == ("5" if status == 503 else None)


@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        (bytes(MOST_BYTES + 1), "audio/wav", 413, "too_large"),
        # Any site can send these without permission.
        (b"x", "text/plain", 415, "unsupported_media_type"),
        (b"x", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    ],
    ids=["too large", "text", "form"],
)
async def test_a_file_that_is_refused_does_not_reach_the_converter(
    *, tmp_path: Path, content: bytes, content_type: str, status: int, code: str
) -> None:
    converter = FakeVerifier()
    headers = {"Content-Type": content_type, "Origin": SITE}

    problem(await post(ApiStage(tmp_path, verifying=converter), content, **headers), status, code)
    assert converter.files == []
