"""Whether a page of some web site may use the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

ANY: Final = "*"
"""Stands for every web site in a list of allowed origins."""


def is_allowed_origin(origin: str, host: str | None, allowed: Collection[str]) -> bool:
    """Return whether pages of an origin may use the service.

    Args:
        origin: the request's header `Origin`.
        host: the request's header `Host`; pages from there are always allowed.
        allowed: the allowed origins.
    """
    return ANY in allowed or origin in allowed or urlsplit(origin).netloc == host
