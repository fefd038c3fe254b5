"""The converter's liveness probe, as Cloud Run has one: a converter that is stuck is restarted."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import NoReturn

    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.configuration.options import LivenessProbe


_LOG = logging.getLogger(__name__)

LIVENESS_PATH: Final = "/healthz"


async def wait_until_stuck(url: str, probe: LivenessProbe) -> None:
    """Probe a server until it has failed often enough in a row."""
    failures = 0
    async with httpx.AsyncClient(timeout=probe.timeout_seconds) as client:
        while failures < probe.failure_threshold:
            await asyncio.sleep(probe.period_seconds)
            failures += 1
            with suppress(httpx.TransportError):
                if (await client.get(url + LIVENESS_PATH)).is_success:
                    failures = 0
    _LOG.warning("%s failed %d liveness probes; it is restarted", url, failures)


async def keep_alive(
    url: str, probe: LivenessProbe, restart: Callable[[], Awaitable[None]]
) -> NoReturn:
    while True:
        await wait_until_stuck(url, probe)
        try:
            await restart()
        except Exception:  # noqa: BLE001 - the server is probed and restarted again
            _LOG.exception("%s could not be restarted", url)


class RestartableApp:
    """Stands for the latest application that `start` made; use it as an async context manager.

    Requests that come during a restart wait for its end.
    """

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[ASGIApp]]) -> None:
        self._start = start
        self._stack = AsyncExitStack()
        self._restarting = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __aenter__(self) -> Self:
        await self.restart()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._restarting:
            app = self._app
        if app is None:
            raise RuntimeError("the application is not started")
        await app(scope, receive, send)

    async def restart(self) -> None:
        async with self._restarting:
            self._app = None
            await self._stack.aclose()
            self._app = await self._stack.enter_async_context(self._start())


ANSWER_SECONDS: Final = 180.0  # the limit of an answer: Cloud Scheduler's default


async def post_regularly(client: httpx.AsyncClient, url: str, period_seconds: float) -> NoReturn:
    """Send an empty POST request again and again; a failure is logged and changes nothing."""
    while True:
        await asyncio.sleep(period_seconds)
        try:
            response = await client.post(url, timeout=ANSWER_SECONDS)
        except httpx.TransportError as error:
            _LOG.warning("POST %s failed: %r", url, error)
        else:
            if not response.is_success:
                _LOG.warning("POST %s was answered %d", url, response.status_code)
