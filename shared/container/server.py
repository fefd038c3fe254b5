"""The server of a container, from its first byte to its last: bodies, signals, heartbeats."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from shared.characters.bundle_files import BundleError
from shared.container.process_plan import ServingSettings
from shared.runtime import settings
from shared.runtime.process import on_signal
from shared.runtime.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from shared.container.supervision import Supervision


MOST_BYTES: Final = 40 << 20  # of an unread body, after the answer: more than a recording has
MOST_SECONDS: Final = 20.0  # the wait for the rest of a body
IDLE_SECONDS: Final = 1.0  # the wait for its next piece


class UnreadBodies:
    """ASGI middleware that reads the rest of a request's body, within bounds, after the answer.

    Hypercorn 0.18 queues the body for the application. When the application has answered and the
    queue is full, neither the end of the request nor that of the connection is noticed any more:
    the connection stays open for ever, and a client that uses it again waits in vain.

    The answer leaves at once. A client that then has sent everything can use the connection again;
    otherwise the connection ends.
    """

    def __init__(self, app: ASGIApp, idle_seconds: float = IDLE_SECONDS) -> None:
        self._app = app
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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

            async def read_for_ever() -> None:
                while True:
                    await receive()

            reading = asyncio.create_task(read_for_ever())
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


UNREAD_SECONDS: Final = 20.0  # until the system ends the connection of a client that does not read
INTERRUPTED_SECONDS: Final = 0.7  # for work under way after Ctrl-C; a text may take a minute
RETIRING_SECONDS: Final = 3600.0  # for a worn process: as long as the longest speech is heard
LINGER_SECONDS: Final = 1.0  # for requests on connections that a worn process has accepted


async def do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Work:
    drain: Callable[[], Awaitable[None]] = do_nothing  # hands the work under way back
    retire: Callable[[], Coroutine[Any, Any, None]] = do_nothing
    is_stuck: Callable[[], bool] = lambda: False
    seconds: Callable[[], float] = lambda: 0.0  # the time that all of it has taken


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen; the system ends connections that nobody reads (`TCP_USER_TIMEOUT`, RFC 5482)."""
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
    """Raise SettingsError where Gunicorn cannot supervise several processes."""
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

    After SIGTERM the work under way may end. After SIGINT, which is Ctrl-C, the process ends within
    a second, unless it `finishes_when_interrupted`. A worn process takes nothing new and ends its
    work.
    """
    # Imported here, because the local cloud serves with a server of its own.
    from hypercorn.asyncio import serve  # noqa: PLC0415
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
    async with _Shutdown(server, config, work, supervision) as shutdown:
        shutdown.install_signals(finishes_when_interrupted=finishes_when_interrupted)
        bounded = cast("ASGIFramework", UnreadBodies(cast("ASGIApp", app)))
        await serve(bounded, server, shutdown_trigger=shutdown.wait)


class _Shutdown:
    """The end of a server: at a signal, or when the successor of its worn process serves."""

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
        self._stack.push_async_callback(self._work.drain)
        if self._supervision is not None:
            self._supervision.on_retire(self._retires.set)
            self.begin(self.send_heartbeats(self._supervision))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._stack.aclose()

    def install_signals(self, *, finishes_when_interrupted: bool) -> None:
        interrupt = self._stops.set if finishes_when_interrupted else self.interrupt
        on_signal(signal.SIGTERM, self._stops.set)
        # Gunicorn passes SIGINT on as SIGQUIT.
        passed_on = () if self._supervision is None else (signal.SIGQUIT,)
        for number in (signal.SIGINT, *passed_on):
            on_signal(number, interrupt)

    async def wait(self) -> None:
        waits = [asyncio.create_task(each.wait()) for each in (self._stops, self._retires)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._supervision is not None and not self._stops.is_set():
            await self.retire(self._supervision)
        if self._stops.is_set():
            most = self._config.graceful_timeout
            self._server.graceful_timeout = min(self._server.graceful_timeout, most)
            await self._work.drain()
        for each in waits:
            each.cancel()

    async def retire(self, supervision: Supervision) -> None:
        for descriptor in supervision.sockets:
            asyncio.get_running_loop().remove_reader(descriptor)
        # Each answer says "Connection: close"; HTTP/2 refuses further requests (see http2.py).
        self._server.keep_alive_max_requests = 0
        self._server.graceful_timeout = RETIRING_SECONDS
        self.begin(self._work.retire())

        async def drain_when_stopped() -> None:
            await self._stops.wait()
            await self._work.drain()

        self.begin(drain_when_stopped())
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._stops.wait()

    async def send_heartbeats(self, supervision: Supervision) -> None:
        most = self._config.max_work_seconds
        await supervision.send_heartbeats(
            self._work.is_stuck, lambda: self._work.seconds() > most > 0
        )
        self._stops.set()

    def interrupt(self) -> None:
        most = INTERRUPTED_SECONDS / 2
        self._server.graceful_timeout = min(self._server.graceful_timeout, most)
        # Not the event loop's: it would wait for the threads that compute.
        ending = threading.Timer(INTERRUPTED_SECONDS, os._exit, (0,))
        ending.daemon = True
        ending.start()
        self._stops.set()

    def begin(self, task: Coroutine[Any, Any, None]) -> None:
        self._stack.callback(asyncio.create_task(task).cancel)


_Settings = TypeVar("_Settings", bound=ServingSettings)


def run_container(kind: type[_Settings], run: Callable[[_Settings], None]) -> None:
    """Run a container; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(kind)
        cast("Any", config).configure_logs()
        listening_socket(config.host, config.port).close()  # fails before networks are loaded
        run(config)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there may be no log yet
        sys.exit(2)
