"""Running a container's process only while there is work for it, as Cloud Run does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from infra.local.processes import StartError, free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from infra.local.processes import Process, Supervisor

STOP_SECONDS: Final = 5.0
"""How long an instance may take to stop: less than whoever started the autoscaler gives it."""

_PROBE_PAUSE_SECONDS: Final = 0.01
_NEWS_SECONDS: Final = 1.0


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
        """Learn that the process has ended, if it has: the news of it takes a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_NEWS_SECONDS):
                await self.process.wait()


class Autoscaler:
    """Keeps one instance while requests need it and some time longer, and otherwise the minimum.

    Cloud Run starts as many instances as the load needs; on one machine more than one would only
    share its processors.

    Args:
        supervisor: runs the processes.
        container: what an instance is.
        idle_seconds: how long an instance without requests is kept.
        min_instances: 0, or 1 to keep the instance for ever.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        container: Container,
        *,
        idle_seconds: float,
        min_instances: int = 0,
    ) -> None:
        self._supervisor = supervisor
        self._container = container
        self._idle_seconds = idle_seconds
        self._min_instances = min_instances
        self._numbers = count(1)
        self._starting: asyncio.Task[Instance] | None = None
        self._in_flight = 0
        self._end_of_idleness: asyncio.TimerHandle | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether the minimum of instances runs."""
        return not self._min_instances or _is_up(self._starting)

    @asynccontextmanager
    async def instance(self) -> AsyncIterator[Instance]:
        """Hold an instance for one request.

        If none runs, one is started, for all requests that come meanwhile.

        Raises:
            StartError: it did not get ready; the next request tries again.
        """
        self._in_flight += 1
        self._cancel_idleness()
        try:
            # Who goes away does not stop what others may be waiting for.
            yield await asyncio.shield(self._running_instance())
        finally:
            self._in_flight -= 1
            if not self._in_flight and not self._min_instances:
                self._begin_idleness()

    async def keep_minimum(self) -> None:
        """Start the instance that is always to be there, and again whenever it has ended.

        Where there is none it waits; it never returns.

        Raises:
            StartError: it did not get ready.
        """
        if not self._min_instances:
            await asyncio.Event().wait()
        while True:
            instance = await asyncio.shield(self._running_instance())
            await instance.process.wait()

    async def aclose(self) -> None:
        """Stop what runs and start nothing any more."""
        self._is_closed = True
        self._cancel_idleness()
        await self._supervisor.stop_all(STOP_SECONDS)
        starting = () if self._starting is None else (self._starting,)
        await asyncio.gather(*self._stopping, *starting, return_exceptions=True)

    def _running_instance(self) -> asyncio.Task[Instance]:
        self._require_open()
        if self._starting is None or (self._starting.done() and not _is_up(self._starting)):
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> Instance:
        (port,) = free_ports(1)
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
        return instance

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
            # Who had it started has gone meanwhile: then it is not idle before it is ready.
            if starting is not None and not starting.done():
                self._begin_idleness()
            return
        self._starting = None
        process = starting.result().process
        stopping = asyncio.create_task(self._supervisor.stop(process, STOP_SECONDS))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)


def _is_up(starting: asyncio.Task[Instance] | None) -> bool:
    if starting is None or not starting.done() or starting.cancelled():
        return False
    return starting.exception() is None and starting.result().process.is_running
