"""Runs a container's process only while requests need it, as Cloud Run does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from infra.local.configuration.names import Ports
from infra.local.configuration.options import LivenessProbe, Scaling
from infra.local.processes.children import StartError, Supervisor
from infra.local.processes.cloud_run import wait_until_stuck
from infra.local.processes.servers import forwarded, pass_on
from shared.runtime.process import on_signal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from hypercorn.typing import ASGIFramework
    from starlette.types import Receive, Scope, Send

    from infra.local.processes.children import Process


STOP_SECONDS: Final = 5.0  # the limit of an instance's stop: less than the autoscaler's own
_PROBE_PAUSE_SECONDS: Final = 0.01
_END_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    probe: str


@dataclass(frozen=True, slots=True)
class Instance:
    process: Process
    url: str

    async def may_have_ended(self) -> None:
        """Wait a moment for the end of the process, which becomes known late."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self.process.wait()


class Autoscaler:
    """Keeps one instance while requests need it and a while longer.

    Cloud Run starts as many instances as the load needs; on one machine, more than one would only
    share the processors. An instance that fails its liveness probe is stopped; the next request
    starts another one.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        container: ContainerProgram,
        *,
        scaling: Scaling,
        liveness: LivenessProbe,
    ) -> None:
        self._supervisor = supervisor
        self._container = container
        self._idle_seconds = scaling.idle_seconds
        self._liveness = liveness
        self._numbers = count(1)
        self._starting: asyncio.Task[Instance] | None = None
        self._in_flight = 0
        self._end_of_idleness: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def instance(self) -> AsyncIterator[Instance]:
        """Hold an instance for one request; one is started for all that wait, if none runs."""
        self._in_flight += 1
        self._cancel_idleness()
        try:
            # A client that goes away must not cancel a start that others wait for.
            yield await asyncio.shield(self._running_instance())
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._begin_idleness()

    async def aclose(self) -> None:
        self._is_closed = True
        self._cancel_idleness()
        await self._supervisor.stop_all(STOP_SECONDS)
        starting = () if self._starting is None else (self._starting,)
        await asyncio.gather(*self._background, *starting, return_exceptions=True)

    def _running_instance(self) -> asyncio.Task[Instance]:
        self._require_open()
        if self._starting is None or (self._starting.done() and not is_up(self._starting)):
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> Instance:
        container = self._container
        # As soon as the instance listens, the port is its own.
        with Ports() as ports:
            (port,) = ports.free(1)
            process = await self._supervisor.start(
                f"{container.name}-{next(self._numbers)}",
                container.command,
                {**container.environment, "PORT": str(port)},
            )
            instance = Instance(process, f"http://127.0.0.1:{port}")
            probe = instance.url + container.probe
            try:
                self._require_open()
                await self._supervisor.wait_until_ready(process, probe, _PROBE_PAUSE_SECONDS)
            except StartError:
                await self._supervisor.stop(process, STOP_SECONDS)
                raise
        self._run_in_background(self._watch(instance))
        return instance

    async def _watch(self, instance: Instance) -> None:
        """Stop an instance that fails its liveness probe."""
        process = instance.process
        stuck = asyncio.create_task(wait_until_stuck(instance.url, self._liveness))
        end = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({stuck, end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stuck.cancel()
            end.cancel()
        if not process.is_running:
            return
        starting = self._starting
        if starting is not None and is_up(starting) and starting.result() is instance:
            # The next request must not be sent to it.
            self._starting = None
        await self._supervisor.stop(process, STOP_SECONDS)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StartError(f"{self._container.name} is not started any more")

    def _cancel_idleness(self) -> None:
        if self._end_of_idleness is not None:
            self._end_of_idleness.cancel()
            self._end_of_idleness = None

    def _begin_idleness(self) -> None:
        loop = asyncio.get_running_loop()
        self._end_of_idleness = loop.call_later(self._idle_seconds, self._scale_to_zero)

    def _scale_to_zero(self) -> None:
        starting = self._starting
        if starting is None or not is_up(starting):
            # Its client has gone before it was ready: it becomes idle only when it is ready.
            if starting is not None and not starting.done():
                self._begin_idleness()
            return
        self._starting = None
        process = starting.result().process
        self._run_in_background(self._supervisor.stop(process, STOP_SECONDS))


def is_up(starting: asyncio.Task[Instance] | None) -> bool:
    if starting is None or not starting.done() or starting.cancelled():
        return False
    return starting.exception() is None and starting.result().process.is_running


_LOG = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 3600.0
"""The limit of an instance's silence: Cloud Run's longest request. Clients give up earlier."""


def create_app(autoscaler: Autoscaler, client: httpx.AsyncClient) -> Starlette:
    """Return the application: it passes every request on except `GET /healthz`.

    That one is answered for the proxy itself: as in Cloud Run, an instance is asked for it only by
    its liveness probe.
    """

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204)

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a request until an instance is ready, and pass it on."""
        request = Request(scope, receive)
        async with AsyncExitStack() as stack:
            try:
                instance = await stack.enter_async_context(autoscaler.instance())
                address = instance.url.removeprefix("http://")
                try:
                    asked = forwarded(client, request, address)
                    answer = await stack.enter_async_context(asked)
                except httpx.TransportError:
                    # Most likely the process has ended: the next request must not be sent to it.
                    await instance.may_have_ended()
                    raise
            except (StartError, httpx.TransportError, ClientDisconnect) as error:
                _LOG.warning("%s %s: %r", request.method, request.url.path, error)
                await PlainTextResponse("no instance", 503)(scope, receive, send)
                return
            await pass_on(answer, send)

    return Starlette(routes=[Route("/healthz", healthz), Mount("/", proxy)])


def command(
    name: str,
    port: int,
    *,
    logs: Path,
    ready_path: str,
    scaling: Scaling,
    liveness: LivenessProbe,
) -> list[str]:
    """Return the command of a proxy; the container's own command has to follow."""
    options = {"name": name, "port": port, "logs": str(logs), "probe": ready_path}
    options |= {"scaling": asdict(scaling), "liveness": asdict(liveness)}
    return [sys.executable, "-m", "infra.local.processes.scale_to_zero", json.dumps(options)]


async def serve_proxy(autoscaler: Autoscaler, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then stop the instance, and after it the proxy."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        on_signal(number, stop.set)

    async def over() -> None:
        await stop.wait()
        # The stopping instance still answers its requests.
        await autoscaler.aclose()

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 1.0
    # A new connection for each request: an instance may close a kept one at any time.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=REQUEST_SECONDS, limits=limits) as client:
        app = create_app(autoscaler, client)
        await serve(cast("ASGIFramework", app), config, shutdown_trigger=over)


def main(options: str, *container: str) -> None:
    """Run a proxy with the options that `command` wrote."""
    told = json.loads(options)
    autoscaler = Autoscaler(
        Supervisor(Path(told["logs"])),
        ContainerProgram(told["name"], container, os.environ, told["probe"]),
        scaling=Scaling(**told["scaling"]),
        liveness=LivenessProbe(**told["liveness"]),
    )
    asyncio.run(serve_proxy(autoscaler, told["port"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
