"""Child processes that always end with the local cloud."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from infra.local.configuration.names import Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence


STOP_SECONDS: Final = 6.0  # the limit of a process's stop, after which it is killed
READY_SECONDS: Final = 90.0
PROBE_PAUSE_SECONDS: Final = 0.05
_LOG_TAIL_CHARACTERS: Final = 2000
_ADDRESS_IN_USE: Final = "address already in use"
_LAUNCHER: Final = Path(__file__).with_name("parent_guard.py")


_Started = TypeVar("_Started")


class StartError(Exception):
    """A process of the local cloud did not start; the message names it and shows its log."""


class AddressInUseError(StartError):
    """Another program has the port that a process was to open."""


@dataclass(eq=False, frozen=True, slots=True)
class Process:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def wait(self) -> int:
        return await self.process.wait()

    async def stop(self, patience_seconds: float = STOP_SECONDS) -> None:
        self.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience_seconds):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            with suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    # Also its children: each process leads a group of its own.
                    os.killpg(self.pid, signal.SIGKILL)
                else:  # Windows
                    self.process.kill()
            await self.wait()


class Supervisor:
    def __init__(self, logs: Path) -> None:
        self.ports = Ports()
        self._logs = logs
        self._changed = asyncio.Event()
        self.processes: list[Process] = []

    async def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log_mode: str = "wb",
    ) -> Process:
        """Start a process; its output goes to `NAME.log`."""
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{name}.log"
        # The launcher makes a program end with this process, even if this one is killed. It needs
        # no packages, and starts faster without looking for them (-S and -E).
        guard = (sys.executable, "-S", "-E", str(_LAUNCHER), str(os.getpid()))
        with log.open(log_mode) as output:
            running = await asyncio.create_subprocess_exec(
                *(*(guard if sys.platform == "linux" else ()), *command),
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C reaches only us, so that everything is stopped in order.
                start_new_session=True,
            )
        process = Process(name, command, environment, log, running)
        self.processes.append(process)
        self._changed.set()
        return process

    async def restart(self, process: Process) -> Process:
        """Stop a process and start its program again; the output is added to the same log.

        `wait_for_an_end` does not return for a process that is stopped in this way.
        """
        await self.stop(process)
        return await self.start(process.name, process.command, process.environment, "ab")

    async def wait_until_ready(
        self, process: Process, url: str, pause_seconds: float = PROBE_PAUSE_SECONDS
    ) -> None:
        """Wait until a process, and no other one, answers at an address with a success."""
        async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
            try:
                async with asyncio.timeout(READY_SECONDS):
                    while not await is_ready(client, process, url):
                        require_up(process)
                        await asyncio.sleep(pause_seconds)
                    require_up(process)
            except TimeoutError:
                raise StartError(complaint_of(process, "did not get ready")) from None

    async def stop(self, process: Process, patience_seconds: float = STOP_SECONDS) -> None:
        # First it leaves the list, so that `wait_for_an_end` does not take this for a crash.
        with suppress(ValueError):
            self.processes.remove(process)
        await process.stop(patience_seconds)

    async def stop_all(self, patience_seconds: float = STOP_SECONDS) -> None:
        await asyncio.gather(*(self.stop(each, patience_seconds) for each in self.processes))
        self.ports.close()

    async def wait_for_an_end(self) -> Process:
        """Return the first process that ends without having been stopped."""
        while True:
            self._changed.clear()
            ends = {asyncio.create_task(process.wait()): process for process in self.processes}
            change = asyncio.create_task(self._changed.wait())
            try:
                done, _ = await asyncio.wait({*ends, change}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiting in (*ends, change):
                    waiting.cancel()
            for end in done - {change}:
                if ends[end] in self.processes:
                    return ends[end]


async def start_with_free_ports(
    start: Callable[[AsyncExitStack], Awaitable[_Started]], stack: AsyncExitStack, most_starts: int
) -> _Started:
    """Start servers again, with other ports, if another program takes a port of theirs first."""
    for starts_left in reversed(range(most_starts)):
        async with AsyncExitStack() as own:
            try:
                started = await start(own)
            except AddressInUseError:
                if not starts_left:
                    raise
                continue
            stack.push_async_exit(own.pop_all())
            return started
    raise ValueError("expected at least one start")


def require_up(process: Process) -> None:
    """Refuse a process that has ended, or whose port another program has.

    The Pub/Sub emulator does not end then, and the other program may well answer in its place.
    """
    if _ADDRESS_IN_USE in process.log.read_text(errors="replace").lower():
        raise AddressInUseError(complaint_of(process, "could not open its port"))
    if not process.is_running:
        raise StartError(complaint_of(process, "ended while starting"))


async def is_ready(client: httpx.AsyncClient, process: Process, url: str) -> bool:
    try:
        response = await client.get(url)
    except httpx.TransportError:
        return False
    if response.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
        # Unlike 503 this does not pass: its settings or files are wrong.
        raise StartError(complaint_of(process, "is broken"))
    return response.is_success


def complaint_of(process: Process, what: str) -> str:
    tail = process.log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:].strip()
    return f"{process.name} {what}; the end of {process.log}:\n{tail}"


@asynccontextmanager
async def run_in_background(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
