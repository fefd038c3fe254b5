"""How a process of this image serves: its settings, its server, and its end."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import Field

from conversion.serving.planning import RECYCLED_AFTER
from conversion.serving.unread_bodies import UnreadBodies
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.process.settings import EnvironmentSettings, SettingsError
from shared.process.signals import on_signal
from speech.networks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp

    from conversion.serving.processes import Supervision


UNREAD_SECONDS: Final = 20.0
"""After how long the system ends the connection of a client that does not read."""

INTERRUPTED_SECONDS: Final = 0.7
"""How long what is under way may still take after Ctrl-C; speaking a text may take a minute."""


def planned_max_requests(settings: dict[str, Any]) -> int:
    """Return after how many requests a process is replaced: never, if there is only one."""
    return RECYCLED_AFTER if settings.get("workers", 1) > 1 else 0


class ServingSettings(EnvironmentSettings):
    """The settings of whatever serves in one or several processes.

    Attributes:
        port: the port that it listens on.
        host: the address that it listens on.
        workers: the most processes.
        concurrency: how much is done at once by all processes together.
        backlog: how much more may wait; further requests are refused.
        threads: how many threads one network uses.
        provider: where networks run; `cuda` needs a GPU and the image with CUDA.
        timeout: after how many seconds without a heartbeat one of several processes is replaced; a
            new process must be ready within this time.
        graceful_timeout: how many seconds a process may take to stop; Cloud Run kills an instance
            ten seconds after SIGTERM.
        keepalive: how many seconds an idle connection is kept open.
        max_requests: after how many requests a process is replaced; 0 for never, which is the
            default for a single process.
        max_requests_jitter: up to how many requests are added to that at random, so that not all
            processes are replaced at once.
        max_bundle_bytes: how many bytes the graphs of one character bundle may have together.
        characters_dir: folder of the character bundles that come with the image.
    """

    # Before those whose defaults may be planned from it.
    max_bundle_bytes: Annotated[int, Field(ge=1)] = MAX_BUNDLE_BYTES
    host: str = "0.0.0.0"  # noqa: S104 - a container must be reachable from outside
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    workers: Annotated[int, Field(ge=1, le=32)] = 1
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1
    backlog: Annotated[int, Field(ge=0, le=1000)] = 8
    threads: Annotated[int, Field(ge=1, le=16)] = 1
    provider: Provider = Provider.CPU
    timeout: Annotated[int, Field(ge=5, le=600)] = 30
    graceful_timeout: Annotated[int, Field(ge=1, le=600)] = 8
    keepalive: Annotated[float, Field(ge=1, le=3600)] = 75.0
    max_requests: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default_factory=planned_max_requests
    )
    max_requests_jitter: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default_factory=lambda settings: settings.get("max_requests", 0) // 10
    )
    characters_dir: Path = Path(__file__).parents[2] / "characters"

    @property
    def is_alone(self) -> bool:
        """Whether there is only one process, which is never replaced."""
        return self.processes == 1 and self.max_requests == 0

    @property
    def processes(self) -> int:
        """How many processes there are: each of them must have something to do."""
        return min(self.workers, self.concurrency)

    def share(self, number: int) -> int:
        """Return one process's share of a number that is meant for all processes."""
        return math.ceil(number / self.processes)


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen; the system ends connections that nobody reads (`TCP_USER_TIMEOUT`, RFC 5482).

    Raises:
        SettingsError: another program has the port, or it may not be taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(
            f"PORT={port} at {host} cannot be used: {why}. Stop the program that has"
            " it, or choose another PORT."
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted connections inherit it.
        milliseconds = int(UNREAD_SECONDS * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return listening


def require_supervision() -> None:
    """Refuse several processes where nothing can supervise them.

    Raises:
        SettingsError: this system does not have what Gunicorn needs.
    """
    try:
        import fcntl  # noqa: F401, PLC0415 - Windows does not have it
    except ImportError as error:
        raise SettingsError(
            "WORKERS: several processes, or processes that are replaced, need Linux or macOS."
            " Set WORKERS=1 and MAX_REQUESTS=0."
        ) from error


async def serve_until_signal(
    app: ASGIFramework,
    config: ServingSettings,
    drain: Callable[[], Awaitable[None]],
    supervision: Supervision | None = None,
    is_stuck: Callable[[], bool] = lambda: False,
    *,
    finishes_when_interrupted: bool = False,
) -> None:
    """Serve an application until SIGTERM or SIGINT.

    After SIGTERM what is under way may end. After SIGINT, which is Ctrl-C, the process ends within
    a second, whatever is under way.

    Args:
        app: the application.
        config: the settings.
        drain: ends what is under way; called before the server stops.
        supervision: by Gunicorn, if there are several processes.
        is_stuck: whether this process must be replaced.
        finishes_when_interrupted: whether SIGINT does what SIGTERM does.

    Raises:
        SettingsError: the port cannot be used.
    """
    # Imported here, because the local cloud serves with a server of its own.
    from hypercorn.asyncio import serve  # noqa: PLC0415

    stop = asyncio.Event()
    server = _server(config, supervision)

    def interrupted() -> None:
        if finishes_when_interrupted:
            stop.set()
            return
        server.graceful_timeout = min(server.graceful_timeout, INTERRUPTED_SECONDS / 2)
        # Not the event loop's: it would wait for the threads that compute.
        ending = threading.Timer(INTERRUPTED_SECONDS, os._exit, (0,))
        ending.daemon = True
        ending.start()
        stop.set()

    on_signal(signal.SIGTERM, stop.set)
    # Gunicorn passes SIGINT on as SIGQUIT.
    for number in (signal.SIGINT, *(() if supervision is None else (signal.SIGQUIT,))):
        on_signal(number, interrupted)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(drain)
        if supervision is not None:
            alive = supervision.send_heartbeats(is_stuck)
            living = asyncio.create_task(_set_after(alive, stop))
            stack.callback(living.cancel)

        async def stopped() -> None:
            await stop.wait()
            await drain()

        reading = cast("ASGIFramework", UnreadBodies(cast("ASGIApp", app)))
        await serve(reading, server, shutdown_trigger=stopped)


async def _set_after(end: Awaitable[None], event: asyncio.Event) -> None:
    await end
    event.set()


def _server(config: ServingSettings, supervision: Supervision | None) -> Config:
    from hypercorn.config import Config  # noqa: PLC0415

    from conversion.serving.http2 import use_bounded_http2  # noqa: PLC0415
    from conversion.serving.websockets import limit_clients  # noqa: PLC0415

    use_bounded_http2()
    server = Config()
    limit_clients(server)
    if supervision is None:
        sockets: tuple[int, ...] = (listening_socket(config.host, config.port).detach(),)
    else:
        sockets = supervision.sockets
        server.max_requests = config.max_requests or None
        server.max_requests_jitter = config.max_requests_jitter
    server.bind = [f"fd://{descriptor}" for descriptor in sockets]
    server.graceful_timeout = config.graceful_timeout
    server.keep_alive_timeout = config.keepalive
    server.errorlog = logging.getLogger("hypercorn")
    return server
