"""Reads requests, for the endpoints of both APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request


def base_url(request: Request) -> str:
    """How the client reached this server: scheme, host and port."""
    return f"{request.url.scheme}://{request.headers['host']}"
