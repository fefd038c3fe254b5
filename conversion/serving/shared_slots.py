"""How much all processes of one machine do at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_LOOK_AGAIN_SECONDS: Final = 0.25
_MOST_SIGNS: Final = 1 << 16


class SharedSlots:
    """Slots that all processes with the same folder share.

    Connections do not come evenly to the processes, so that a fixed share of the work for each
    would leave processors idle. Here whichever process has something to do takes a slot.

    A slot is the lock of a file, which says whose it is. The system releases it when a process
    ends, however it ends. A process that releases one puts a sign into a named pipe, which wakes
    whoever waits; a slot of a process that was killed is found by looking again after a while.

    What is under way is not stopped. So while one client has all slots, whatever the process, each
    other one may take a spare slot.

    Args:
        folder: where the files lie; it exists.
        count: how many slots there are.
        spare: how many more there are beside a client that has all slots.
    """

    def __init__(self, folder: Path, count: int, spare: int = 0) -> None:
        self._files = [folder / f"slot-{number}" for number in range(count)]
        self._spare = [folder / f"spare-{number}" for number in range(spare)]
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: set[asyncio.Event] = set()
        pipe = folder / "released"
        with suppress(FileExistsError):
            os.mkfifo(pipe, 0o600)
        self._signs = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    @asynccontextmanager
    async def slot(self, client: str | None = None) -> AsyncIterator[None]:
        """Wait for a slot, and have it inside the context.

        Args:
            client: who waits; in each process in the order of arrival. None is a client, too.
        """
        name = sha256(repr(client).encode()).hexdigest()
        # No client waits behind another one, who may take what it may not.
        async with self._turns.setdefault(name, asyncio.Lock()):
            descriptor = self._take(name)
            while descriptor is None:
                await self._wait_for_sign()
                descriptor = self._take(name)
                # All signs were taken out, also those for the others: there may be more slots.
                if descriptor is not None:
                    self._give_sign()
        try:
            yield
        finally:
            os.close(descriptor)
            self._give_sign()

    def _take(self, name: str) -> int | None:
        """Lock a slot that is free for a client; None if none is."""
        free = (each for each in map(_lock, self._files) if each is not None)
        descriptor = next(free, None)
        if descriptor is None and self._has_one_other_all(name):
            spare = (each for each in map(_lock, self._spare) if each is not None)
            descriptor = next(spare, None)
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, name.encode(), 0)
        return descriptor

    def _has_one_other_all(self, name: str) -> bool:
        holders = {file.read_text() for file in self._files}
        # What was locked in this moment says nobody's name yet.
        return len(holders) == 1 and not holders & {name, ""}

    def _give_sign(self) -> None:
        with suppress(BlockingIOError):  # there are more than enough of them
            os.write(self._signs, b"\0")

    async def _wait_for_sign(self) -> None:
        loop, given = asyncio.get_running_loop(), asyncio.Event()
        if not self._waiting:
            loop.add_reader(self._signs, self._wake)
        self._waiting.add(given)
        try:
            async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                await given.wait()
        except TimeoutError:
            return
        finally:
            self._waiting.remove(given)
            if not self._waiting:
                loop.remove_reader(self._signs)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # another process has taken them out
            os.read(self._signs, _MOST_SIGNS)
        for given in self._waiting:
            given.set()


def _lock(file: Path) -> int | None:
    """Lock a file; return its descriptor, None if it is locked."""
    # Opened anew: locks of one opened file do not exclude each other.
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
