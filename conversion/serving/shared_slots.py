"""How much all processes of one machine do at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

_LOOK_AGAIN_SECONDS: Final = 0.25
_MOST_SIGNS: Final = 1 << 16
_PIPE: Final = "released-"


class SharedSlots:
    """Slots that all processes with the same folder share.

    Connections do not come evenly to the processes, so that a fixed share of the work for each
    would leave processors idle. Here whichever process has something to do takes a slot.

    A slot is the lock of a file, which says whose it is. The system releases it when a process
    ends, however it ends. A process that releases one puts a sign into the named pipe of each
    process, which wakes all that wait there; a slot of a process that was killed is found by
    looking again after a while. With one pipe for all, a process in which nobody may take the slot
    would keep the sign from those who may.

    Clients share the slots, whatever the process: who has one takes no other while somebody else
    waits. What is under way is not stopped, so while one client has all slots, each other one may
    take a spare slot.

    Args:
        folder: where the files lie; it exists.
        count: how many slots there are.
        spare: how many more there are beside a client that has all slots.
    """

    def __init__(self, folder: Path, count: int, spare: int = 0) -> None:
        self._files = [folder / f"slot-{number}" for number in range(count)]
        self._spare = [folder / f"spare-{number}" for number in range(spare)]
        self._folder = folder
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: set[asyncio.Event] = set()
        name = secrets.token_hex(8)
        pipe = folder / f"opening-{name}"
        os.mkfifo(pipe, 0o600)
        self._signs = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        # Only now, because one that nobody reads is taken for that of a process that has ended.
        pipe.rename(folder / f"{_PIPE}{name}")

    @asynccontextmanager
    async def slot(self, client: str | None = None) -> AsyncIterator[None]:
        """Wait for a slot, and have it inside the context.

        Args:
            client: who waits; in each process in the order of arrival. None is a client, too.
        """
        name = _name_of(client)
        # No client waits behind another one, who may take what it may not.
        async with self._turns.setdefault(name, asyncio.Lock()):
            descriptor = self._take(name)
            if descriptor is None:
                with self._seen_waiting(name):
                    while (descriptor := self._take(name)) is None:
                        await self._wait_for_sign()
                # While it waited, others may have left a slot to it.
                self._give_signs()
        try:
            yield
        finally:
            os.close(descriptor)
            self._give_signs()

    def should_pass_on(self, client: str | None) -> bool:
        """Return whether another client waits, in whichever process."""
        return bool(self._waiting_clients() - {_name_of(client)})

    def _take(self, name: str) -> int | None:
        """Lock a slot that is free for a client; None if none is."""
        locked = {file: _lock(file) for file in self._files}
        holders = {file.read_text() for file, descriptor in locked.items() if descriptor is None}
        free = [each for each in locked.values() if each is not None]
        if free and name in holders and self._waiting_clients() - holders:
            taken = None
        elif free:
            taken = free.pop()
        else:
            # What was locked in this moment says nobody's name yet.
            has_one_all = len(holders) == 1 and not holders & {name, ""}
            taken = _lock_one(self._spare) if has_one_all else None
        for descriptor in free:
            os.close(descriptor)
        if taken is not None:
            os.ftruncate(taken, 0)
            os.pwrite(taken, name.encode(), 0)
        return taken

    @contextmanager
    def _seen_waiting(self, name: str) -> Iterator[None]:
        """Let all processes see that a client waits."""
        file = self._folder / f"waits-{name}-{os.getpid()}"
        descriptor = _lock(file)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            if descriptor is not None:
                os.close(descriptor)

    def _waiting_clients(self) -> set[str]:
        names = set()
        for file in self._folder.glob("waits-*"):
            descriptor = _lock(file)
            if descriptor is None:
                names.add(file.name.split("-")[1])
            else:  # of a process that was killed
                file.unlink(missing_ok=True)
                os.close(descriptor)
        return names

    def _give_signs(self) -> None:
        for pipe in self._folder.glob(f"{_PIPE}*"):
            try:
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # of a process that has ended
                pipe.unlink(missing_ok=True)
                continue
            with suppress(BlockingIOError):  # there are more than enough of them
                os.write(descriptor, b"\0")
            os.close(descriptor)

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
        os.read(self._signs, _MOST_SIGNS)
        for given in self._waiting:
            given.set()


def _name_of(client: str | None) -> str:
    return sha256(repr(client).encode()).hexdigest()


def _lock_one(files: Iterable[Path]) -> int | None:
    """Lock the first file that is not locked."""
    return next((each for each in map(_lock, files) if each is not None), None)


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
