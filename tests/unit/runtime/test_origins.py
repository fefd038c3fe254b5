from __future__ import annotations

import httpx
import pytest
from starlette.responses import Response

from shared.runtime.origins import AllowedOriginsMiddleware, is_allowed_origin

ALLOWED = ("https://shop.example", "http://localhost:*")
RULES = [
    ("https://shop.example", True),
    ("https://shop.example:8443", False),
    ("http://localhost:5173", True),
    ("http://localhost", True),
    ("http://localhost:", False),
    ("https://localhost:5173", False),
    ("http://localhost.stranger.example:80", False),
    ("http://localhost:80@stranger.example", False),
    ("http://stranger.example:5173", False),
    ("null", False),
    ("http://[", False),
    ("http://[::1", False),
]


@pytest.mark.parametrize(("origin", "is_allowed"), RULES)
async def test_an_origin_with_any_port_allows_the_pages_of_that_host_alone(
    origin: str, *, is_allowed: bool
) -> None:
    app = AllowedOriginsMiddleware(Response("yes"), ALLOWED, ["Content-Type"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        before = await client.options("http://api.example/", headers=asked)
        answer = await client.get("http://api.example/", headers={"Origin": origin})

    assert is_allowed_origin(origin, "api.example", ALLOWED) is is_allowed
    told = origin if is_allowed else None
    assert before.headers.get("access-control-allow-origin") == told
    assert answer.headers.get("access-control-allow-origin") == told
