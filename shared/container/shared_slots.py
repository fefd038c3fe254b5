"""Slots for the work that all processes of one machine do at once."""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import secrets
import struct
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from shared.container.admission import Share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_LOOK_AGAIN_SECONDS: Final = 0.25
_MOST_SIGNS: Final = 1 << 16
_PIPE: Final = "released-"


class SharedSlots:
    """Slots that all processes with the same folder share.

    Connections do not come evenly to the processes, so that a fixed share of the work for each
    would leave processors idle.

    A slot is the lock of a file that contains its owner. The system releases it when a process
    ends, however it ends. A process that releases one puts a sign into the named pipe of each
    process, which wakes all that wait there; a slot of a process that was killed is found by
    looking again. With one pipe for all, a process in which nobody may take the slot would keep
    the sign from the others.

    A client that has a slot takes no other while another one waits. Of one client it is the turn of
    the text that has had least, as in `FairQueue`: one file contains the least time of the texts
    that wait in a process, another the time of the text that was served last. While one client has
    all slots, each other one may take a spare slot.
    """

    def __init__(self, folder: Path, count: int, spare: int = 0) -> None:
        self._files = [folder / f"slot-{number}" for number in range(count)]
        self._spare = [folder / f"spare-{number}" for number in range(spare)]
        self._folder = folder
        self._queues: WeakValueDictionary[str, _Queue] = WeakValueDictionary()
        self._begun: dict[Share, float] = {}
        self._waiting: set[asyncio.Event] = set()
        self._name = secrets.token_hex(8)
        pipe = folder / f"opening-{self._name}"
        os.mkfifo(pipe, 0o600)
        self._signs = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        # Only now, because one that nobody reads is taken for that of a process that has ended.
        pipe.rename(folder / f"{_PIPE}{self._name}")

    @asynccontextmanager
    async def slot(
        self, client: str | None = None, text: Share | None = None
    ) -> AsyncIterator[None]:
        """Wait for a slot, and have it inside the context; None is a client, too."""
        name, text = client_name(client), text or Share()
        queue = self._queues.setdefault(name, _Queue(self._folder, name, self._name))
        text.come(queue.served())
        descriptor = None if queue.is_before(text) else self._take(name, text)
        if descriptor is None:
            try:
                with queue.waiting(text):
                    while descriptor is None:
                        if queue.next_text() is text:
                            descriptor = self._take(name, text)
                        if descriptor is None:
                            await self._wait_for_sign()
            finally:
                # While it waited, others may have left a slot to it.
                self._give_signs()
        queue.serve(text)
        self._begun[text] = time.monotonic()
        try:
            yield
        finally:
            self._count(text)
            del self._begun[text]
            os.close(descriptor)
            self._give_signs()

    def should_pass_on(self, client: str | None, text: Share | None = None) -> bool:
        """Return whether another one waits that has had less; without a text, another client."""
        waiting = self._waiting_clients()
        least = waiting.pop(client_name(client), math.inf)
        if text is not None:
            self._count(text)
        return bool(waiting) or (text is not None and least < text.seconds)

    def _count(self, text: Share) -> None:
        now = time.monotonic()
        text.seconds += now - self._begun[text]
        self._begun[text] = now

    def _take(self, name: str, text: Share) -> int | None:
        """Lock a slot that is free for a client's text; None if none is."""
        waiting = self._waiting_clients()
        if waiting.get(name, math.inf) < text.seconds:
            return None
        locked = {file: lock_file(file) for file in self._files}
        holders = {file.read_text() for file, descriptor in locked.items() if descriptor is None}
        free = [each for each in locked.values() if each is not None]
        if free and name in holders and waiting.keys() - holders:
            taken = None
        elif free:
            taken = free.pop()
        else:
            # A slot that was locked at this moment has no name yet.
            has_one_all = len(holders) == 1 and not holders & {name, ""}
            spare = self._spare if has_one_all else []
            taken = next((each for each in map(lock_file, spare) if each is not None), None)
        for descriptor in free:
            os.close(descriptor)
        if taken is not None:
            os.ftruncate(taken, 0)
            os.pwrite(taken, name.encode(), 0)
        return taken

    def _waiting_clients(self) -> dict[str, float]:
        """Find the clients that wait, and the least time of each one's texts."""
        found: dict[str, float] = {}
        for file in self._folder.glob("waits-*"):
            descriptor = lock_file(file)
            if descriptor is None:
                name = file.name.split("-")[1]
                found[name] = min(found.get(name, math.inf), read_number(file, math.inf))
            else:  # of a process that was killed
                file.unlink(missing_ok=True)
                os.close(descriptor)
        return found

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

        def wake_all() -> None:
            os.read(self._signs, _MOST_SIGNS)
            for each in self._waiting:
                each.set()

        if not self._waiting:
            loop.add_reader(self._signs, wake_all)
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


class _Queue:
    """The texts of one client that wait in this process; all processes see their times."""

    def __init__(self, folder: Path, name: str, process: str) -> None:
        self.name = name
        self._file = folder / f"waits-{name}-{process}"
        self._served = folder / f"served-{name}"
        self._texts: list[Share] = []

    @contextmanager
    def waiting(self, text: Share) -> Iterator[None]:
        descriptor = share_file(self._file)
        self._texts.append(text)
        write_number(self._file, self.next_text().seconds)
        try:
            yield
        finally:
            self._texts.remove(text)
            if self._texts:
                write_number(self._file, self.next_text().seconds)
            else:
                self._file.unlink(missing_ok=True)
            os.close(descriptor)

    def is_before(self, text: Share) -> bool:
        """Return whether another one waits whose turn comes before that of a new text."""
        return any(each.seconds <= text.seconds for each in self._texts)

    def next_text(self) -> Share:
        return min(self._texts, key=lambda each: each.seconds)

    def served(self) -> float:
        return read_number(self._served, 0.0)

    def serve(self, text: Share) -> None:
        write_number(self._served, max(self.served(), text.seconds))


def share_file(file: Path) -> int:
    """Lock a file together with others; return its descriptor."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Before it was locked, it may have been taken for that of a process that was killed.
        with suppress(FileNotFoundError):
            if file.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)


def read_number(file: Path, usual: float) -> float:
    """Read a number that another process may be writing for the first time."""
    try:
        (number,) = struct.unpack("d", file.read_bytes())
    except (FileNotFoundError, struct.error):
        return usual
    return float(number)


def write_number(file: Path, number: float) -> None:
    """Write a number in one piece, so that nobody reads half of it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(descriptor, struct.pack("d", number), 0)
    os.close(descriptor)


def client_name(client: str | None) -> str:
    return sha256(repr(client).encode()).hexdigest()


def lock_file(file: Path) -> int | None:
    """Lock a file; None if it is locked."""
    # Opened anew: locks of one opened file do not exclude each other.
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
