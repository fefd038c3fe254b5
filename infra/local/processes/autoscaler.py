"""Runs a container's process only while requests need it, as Cloud Run does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from infra.local.configuration.ports import Ports
from infra.local.processes.liveness import wait_until_stuck
from infra.local.processes.processes import StartError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from infra.local.configuration.options import LivenessProbe, Scaling
    from infra.local.processes.processes import Process, Supervisor

STOP_SECONDS: Final = 5.0
"""How long an instance may take to stop: less than whoever started the autoscaler gives it."""

_PROBE_PAUSE_SECONDS: Final = 0.01
_END_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Container:
    """What an instance is started from.

    Attributes:
        name: of the service, for messages and logs.
        command: the program; it must listen at the port that `PORT` says.
        environment: its environment variables, but for `PORT`.
        probe: the path that answers with a success when the instance is ready.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    probe: str


@dataclass(frozen=True, slots=True)
class Instance:
    """One running process of a container, and its base address."""

    process: Process
    url: str

    async def may_have_ended(self) -> None:
        """Wait a moment for the end of the process, which becomes known late."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self.process.wait()


class Autoscaler:
    """Keeps one instance while requests need it and a while longer, and otherwise the minimum.

    Cloud Run starts as many instances as the load needs; on one machine, more than one would only
    share the processors. An instance that fails its liveness probe is stopped; the next request
    starts another one.

    Args:
        supervisor: runs the processes.
        container: what an instance is.
        scaling: how instances start and stop.
        liveness: how a running instance is asked whether it still works.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        container: Container,
        *,
        scaling: Scaling,
        liveness: LivenessProbe,
    ) -> None:
        self._supervisor = supervisor
        self._container = container
        self._idle_seconds = scaling.idle_seconds
        self._min_instances = scaling.min_instances
        self._liveness = liveness
        self._numbers = count(1)
        self._starting: asyncio.Task[Instance] | None = None
        self._in_flight = 0
        self._end_of_idleness: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether the minimum of instances runs."""
        return not self._min_instances or _is_up(self._starting)

    @asynccontextmanager
    async def instance(self) -> AsyncIterator[Instance]:
        """Hold an instance for one request.

        If none runs, one is started, for all requests that wait for it.

        Raises:
            StartError: it did not get ready; the next request tries again.
        """
        self._in_flight += 1
        self._cancel_idleness()
        try:
            # A client that goes away must not cancel a start that others wait for.
            yield await asyncio.shield(self._running_instance())
        finally:
            self._in_flight -= 1
            if not self._in_flight and not self._min_instances:
                self._begin_idleness()

    async def keep_minimum(self) -> None:
        """Keep the minimum instance running: start it again whenever it has ended.

        Without a minimum it only waits. It never returns.

        Raises:
            StartError: it did not get ready.
        """
        if not self._min_instances:
            await asyncio.Event().wait()
        while True:
            instance = await asyncio.shield(self._running_instance())
            await instance.process.wait()

    async def aclose(self) -> None:
        """Stop every instance and start no more."""
        self._is_closed = True
        self._cancel_idleness()
        await self._supervisor.stop_all(STOP_SECONDS)
        starting = () if self._starting is None else (self._starting,)
        await asyncio.gather(*self._background, *starting, return_exceptions=True)

    def _running_instance(self) -> asyncio.Task[Instance]:
        self._require_open()
        if self._starting is None or (self._starting.done() and not _is_up(self._starting)):
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> Instance:
        # As soon as the instance listens, the port is its own.
        with Ports() as ports:
            return await self._start_at(*ports.free(1))

    async def _start_at(self, port: int) -> Instance:
        container = self._container
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
        if starting is not None and _is_up(starting) and starting.result() is instance:
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
        if starting is None or not _is_up(starting):
            # Its client has gone before it was ready: it becomes idle only when it is ready.
            if starting is not None and not starting.done():
                self._begin_idleness()
            return
        self._starting = None
        process = starting.result().process
        self._run_in_background(self._supervisor.stop(process, STOP_SECONDS))


def _is_up(starting: asyncio.Task[Instance] | None) -> bool:
    if starting is None or not starting.done() or starting.cancelled():
        return False
    return starting.exception() is None and starting.result().process.is_running
