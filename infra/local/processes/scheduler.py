"""A timer in place of Cloud Scheduler: it starts the sweeps."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from typing import NoReturn

_LOG = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 180.0
"""How long an answer may take; Cloud Scheduler's default."""


async def post_regularly(client: httpx.AsyncClient, url: str, period_seconds: float) -> NoReturn:
    """Send an empty POST request again and again; a failure is logged and changes nothing.

    Args:
        client: sends the requests.
        url: where they go.
        period_seconds: the pause before each request.
    """
    while True:
        await asyncio.sleep(period_seconds)
        try:
            response = await client.post(url, timeout=ANSWER_SECONDS)
        except httpx.TransportError as error:
            _LOG.warning("POST %s failed: %r", url, error)
        else:
            if not response.is_success:
                _LOG.warning("POST %s was answered %d", url, response.status_code)
