"""Lets applications answer before they have read what the client sends.

Hypercorn 0.18 queues what comes for the application. When the application has answered and the
queue is full, neither the end of the request nor the end of the connection is noticed any more: the
connection stays open for ever, and a client that uses it again waits in vain. A recording that was
refused for its key or its voice was enough for that.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self, TypeVar, cast

from pydantic import Field

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.container.process_plan import WORN_AFTER_SECONDS
from shared.runtime import settings
from shared.runtime.process import on_signal
from shared.runtime.settings import EnvironmentSettings, SettingsError
from shared.speech.graphs.sessions import Provider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from shared.container.supervision import Supervision


MOST_BYTES: Final = 40 << 20
"""How much of a body is read that nobody wants: more than the largest recording has."""

MOST_SECONDS: Final = 20.0
IDLE_SECONDS: Final = 1.0
"""For how long the rest of a body is waited for, and for how long its next piece."""


class UnreadBodies:
    """ASGI middleware: reads the rest of a request's body, within bounds, when it is answered.

    The answer leaves at once. A client that has sent everything then can use the connection again;
    otherwise the connection ends.
    """

    def __init__(self, app: ASGIApp, idle_seconds: float = IDLE_SECONDS) -> None:
        self._app = app
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_ended = False

        async def receive_noting() -> Message:
            nonlocal has_ended
            message = await receive()
            has_ended = has_ended or _is_last(message)
            return message

        async def send_after_body(message: Message) -> None:
            if has_ended or message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            await self._read_rest(receive)
            reading = asyncio.create_task(_read_for_ever(receive))
            try:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                reading.cancel()

        try:
            await self._app(scope, receive_noting, send_after_body)
        except Exception:
            # The server answers 500, and then waits in the same way.
            if not has_ended:
                await self._read_rest(receive)
            raise

    async def _read_rest(self, receive: Receive) -> None:
        read = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(MOST_SECONDS):
                while read < MOST_BYTES:
                    async with asyncio.timeout(self._idle_seconds):
                        message = await receive()
                    if _is_last(message):
                        return
                    read += len(message.get("body", b""))


def _is_last(message: Message) -> bool:
    return message["type"] == "http.disconnect" or not message.get("more_body", False)


async def _read_for_ever(receive: Receive) -> Any:
    while True:
        await receive()


UNREAD_SECONDS: Final = 20.0
"""After how long the system ends the connection of a client that does not read."""

INTERRUPTED_SECONDS: Final = 0.7
"""How long what is under way may still take after Ctrl-C; speaking a text may take a minute."""


RETIRING_SECONDS: Final = 3600.0
"""How long a worn process may take to end what it has: as the longest speech takes to be heard."""

LINGER_SECONDS: Final = 1.0
"""How long a worn process still answers requests on connections that it has already accepted."""


def planned_max_work(settings: dict[str, Any]) -> float:
    """Return after how much work a process is replaced: never, if there is only one."""
    return WORN_AFTER_SECONDS if settings.get("workers", 1) > 1 else 0.0


async def _do_nothing() -> None:
    """Do nothing: the server waits for the requests under way."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a process does, as its server sees it."""

    drain: Callable[[], Awaitable[None]] = _do_nothing
    retire: Callable[[], Coroutine[Any, Any, None]] = _do_nothing
    is_stuck: Callable[[], bool] = lambda: False
    seconds: Callable[[], float] = lambda: 0.0


class ServingSettings(EnvironmentSettings):
    """The settings of whatever serves in one or several processes.

    Attributes:
        provider: where networks run; `cuda` needs a GPU and the image with CUDA.
        timeout: after how many seconds without a heartbeat one of several processes is replaced; a
            new process must be ready within this time.
        graceful_timeout: how many seconds a process may take to stop; Cloud Run kills an instance
            ten seconds after SIGTERM.
        keepalive: how many seconds an idle connection is kept open.
        max_work_seconds: after how many seconds of converting or speaking a process is replaced;
            0 for never, which is the default for a single process.
        max_bundle_bytes: how many bytes the graphs of one character bundle may have together.
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
    max_work_seconds: Annotated[float, Field(ge=0, le=10_000_000)] = Field(
        default_factory=planned_max_work
    )
    characters_dir: Path = Path(__file__).parents[2] / "characters"

    @property
    def is_alone(self) -> bool:
        """Whether there is only one process, which is never replaced."""
        return self.processes == 1 and self.max_work_seconds == 0

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
            " Set WORKERS=1 and MAX_WORK_SECONDS=0."
        ) from error


async def serve_until_signal(
    app: ASGIFramework,
    config: ServingSettings,
    work: Work,
    supervision: Supervision | None = None,
    *,
    finishes_when_interrupted: bool = False,
) -> None:
    """Serve an application until SIGTERM or SIGINT.

    After SIGTERM what is under way may end. After SIGINT, which is Ctrl-C, the process ends within
    a second, whatever is under way. A worn process takes nothing new and ends what it has.

    Raises:
        SettingsError: the port cannot be used.
    """
    # Imported here, because the local cloud serves with a server of its own.
    from hypercorn.asyncio import serve  # noqa: PLC0415

    server = _server(config, supervision)
    async with _End(server, config, work, supervision) as end:
        end.heed_signals(finishes_when_interrupted=finishes_when_interrupted)
        reading = cast("ASGIFramework", UnreadBodies(cast("ASGIApp", app)))
        await serve(reading, server, shutdown_trigger=end.comes)


class _End:
    """The end of a server: at a signal, or when its process is worn and its successor serves."""

    def __init__(
        self,
        server: Config,
        config: ServingSettings,
        work: Work,
        supervision: Supervision | None,
    ) -> None:
        self._server = server
        self._config = config
        self._work = work
        self._supervision = supervision
        self._stops = asyncio.Event()
        self._retires = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Send heartbeats from now on, if there is supervision."""
        self._stack.push_async_callback(self._work.drain)
        if self._supervision is not None:
            self._supervision.on_retire(self._retires.set)
            self._begin(self._send_heartbeats(self._supervision))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """End all that goes on beside the server, and what is still under way."""
        await self._stack.aclose()

    def heed_signals(self, *, finishes_when_interrupted: bool) -> None:
        """Stop at SIGTERM and SIGINT; see serve_until_signal."""
        interrupt = self._stops.set if finishes_when_interrupted else self._interrupt
        on_signal(signal.SIGTERM, self._stops.set)
        # Gunicorn passes SIGINT on as SIGQUIT.
        passed_on = () if self._supervision is None else (signal.SIGQUIT,)
        for number in (signal.SIGINT, *passed_on):
            on_signal(number, interrupt)

    async def comes(self) -> None:
        """Return when the server is to close its connections and wait for what is under way."""
        waits = [asyncio.create_task(each.wait()) for each in (self._stops, self._retires)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._supervision is not None and not self._stops.is_set():
            await self._retire(self._supervision)
        if self._stops.is_set():
            most = self._config.graceful_timeout
            self._server.graceful_timeout = min(self._server.graceful_timeout, most)
            await self._work.drain()
        for each in waits:
            each.cancel()

    async def _retire(self, supervision: Supervision) -> None:
        for descriptor in supervision.sockets:
            asyncio.get_running_loop().remove_reader(descriptor)
        # Each answer says "Connection: close"; HTTP/2 refuses further requests (see http2.py).
        self._server.keep_alive_max_requests = 0
        self._server.graceful_timeout = RETIRING_SECONDS
        self._begin(self._work.retire())
        self._begin(self._drain_when_stopped())
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._stops.wait()

    async def _drain_when_stopped(self) -> None:
        await self._stops.wait()
        await self._work.drain()

    async def _send_heartbeats(self, supervision: Supervision) -> None:
        most = self._config.max_work_seconds
        await supervision.send_heartbeats(
            self._work.is_stuck, lambda: self._work.seconds() > most > 0
        )
        self._stops.set()

    def _interrupt(self) -> None:
        most = INTERRUPTED_SECONDS / 2
        self._server.graceful_timeout = min(self._server.graceful_timeout, most)
        # Not the event loop's: it would wait for the threads that compute.
        ending = threading.Timer(INTERRUPTED_SECONDS, os._exit, (0,))
        ending.daemon = True
        ending.start()
        self._stops.set()

    def _begin(self, task: Coroutine[Any, Any, None]) -> None:
        self._stack.callback(asyncio.create_task(task).cancel)


def _server(config: ServingSettings, supervision: Supervision | None) -> Config:
    from hypercorn.config import Config  # noqa: PLC0415

    from shared.container.protocols import limit_clients  # noqa: PLC0415

    server = Config()
    limit_clients(server)
    if supervision is None:
        sockets: tuple[int, ...] = (listening_socket(config.host, config.port).detach(),)
    else:
        sockets = supervision.sockets
    server.bind = [f"fd://{descriptor}" for descriptor in sockets]
    server.graceful_timeout = config.graceful_timeout
    server.keep_alive_timeout = config.keepalive
    server.errorlog = logging.getLogger("hypercorn")
    return server


class LogSettings(Protocol):
    """Settings that say how to log."""

    def configure_logs(self) -> None:
        """Log in this process as they say."""


_Settings = TypeVar("_Settings", bound=ServingSettings)


def run_container(kind: type[_Settings], run: Callable[[_Settings], None]) -> None:
    """Run a container; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(kind)
        cast("LogSettings", config).configure_logs()
        listening_socket(config.host, config.port).close()  # fails before networks are loaded
        run(config)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there may be no log yet
        sys.exit(2)
