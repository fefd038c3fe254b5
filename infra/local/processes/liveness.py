"""The converter's liveness probe, as Cloud Run has one: a converter that is stuck is restarted."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn

    from infra.local.configuration.options import LivenessProbe

_LOG = logging.getLogger(__name__)

LIVENESS_PATH: Final = "/healthz"


async def wait_until_stuck(url: str, probe: LivenessProbe) -> None:
    """Probe a server until it has failed often enough in a row.

    Args:
        url: its base URL.
        probe: how often it is asked, and how many failures are enough.
    """
    failures = 0
    async with httpx.AsyncClient(timeout=probe.timeout_seconds) as client:
        while failures < probe.failure_threshold:
            await asyncio.sleep(probe.period_seconds)
            failures = 0 if await _is_alive(client, url + LIVENESS_PATH) else failures + 1
    _LOG.warning("%s failed %d liveness probes; it is restarted", url, failures)


async def keep_alive(
    url: str, probe: LivenessProbe, restart: Callable[[], Awaitable[None]]
) -> NoReturn:
    """Restart a server whenever it is stuck.

    Args:
        url: its base URL.
        probe: how it is probed.
        restart: restarts it and returns when it serves again. An error is logged; the server is
            then probed and restarted again.
    """
    while True:
        await wait_until_stuck(url, probe)
        try:
            await restart()
        except Exception:  # noqa: BLE001 - the server is probed and restarted again
            _LOG.exception("%s could not be restarted", url)


async def _is_alive(client: httpx.AsyncClient, url: str) -> bool:
    try:
        response = await client.get(url)
    except httpx.TransportError:
        return False
    return response.is_success
