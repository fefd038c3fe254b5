"""How much all processes of one machine do at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_AGAIN_SECONDS: Final = 0.25
_MOST_SIGNS: Final = 1 << 16


class SharedSlots:
    """Slots that all processes with the same folder share; an asynchronous context takes one.

    Connections do not come evenly to the processes, so that a fixed share of the work for each
    would leave processors idle. Here whichever process has something to do takes a slot.

    A slot is the lock of a file. The system releases it when a process ends, however it ends. A
    process that releases one puts a sign into a named pipe, which wakes whoever waits; a slot of a
    process that was killed is found by looking again after a while.

    Args:
        folder: where the files lie; it exists.
        count: how many slots there are.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._files = [folder / f"slot-{number}" for number in range(count)]
        self._taken: list[int] = []
        self._turn = asyncio.Lock()
        pipe = folder / "released"
        with suppress(FileExistsError):
            os.mkfifo(pipe, 0o600)
        self._signs = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    async def __aenter__(self) -> None:
        """Wait for a slot, in this process in the order of arrival, and take it."""
        async with self._turn:
            if self._take():
                return
            while not self._take():
                await self._wait_for_sign()
            # All signs were taken out, also those for the others: there may be more slots.
            self._give_sign()

    async def __aexit__(self, *_: object) -> None:
        """Release a slot; they are all alike."""
        os.close(self._taken.pop())
        self._give_sign()

    def _take(self) -> bool:
        for file in self._files:
            # Opened anew: locks of one opened file do not exclude each other.
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                self._taken.append(descriptor)
                return True
        return False

    def _give_sign(self) -> None:
        with suppress(BlockingIOError):  # there are more than enough of them
            os.write(self._signs, b"\0")

    async def _wait_for_sign(self) -> None:
        loop, given = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._signs, given.set)
        try:
            async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                await given.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(self._signs)
        with suppress(BlockingIOError):  # another process has taken them out
            os.read(self._signs, _MOST_SIGNS)
