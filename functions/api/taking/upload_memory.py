"""How much memory all the recordings take that come through the api at the same time."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from functions.api.answers.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

_LOG = logging.getLogger(__name__)

MEMORY_BYTES: Final = 200_000_000
"""The memory of all recordings; an instance has 512 MiB and needs up to half of it for the rest."""

COPIES: Final = 3
"""How many copies of a recording are in memory while it is stored.

The received one (a file, but Cloud Run keeps files in memory), the one that the client library has
read, and the one in the body of the library's request.
"""


class UploadMemory:
    """Admits recordings while there is memory for them.

    A recording is charged for the bytes that have arrived, with every copy that storing it will
    make. An upload that announces much and sends little therefore takes little.

    Args:
        largest: the most bytes that are read of one request.
        most: how many bytes all recordings may take. A single one is always admitted.
    """

    def __init__(self, largest: int, most: int = MEMORY_BYTES) -> None:
        self._largest = largest
        self._most = most
        self._taken = 0

    @contextmanager
    def reserve(self, request: Request) -> Iterator[Reservation]:
        """Admit a request whose body was not read yet; free its memory at the end.

        Raises:
            Problem: `unavailable`: what it announces does not fit in now. The client may try again,
                and may reach another instance.
        """
        reservation = Reservation(self)
        self.require_space(COPIES * self._announced_by(request), reservation)
        try:
            yield reservation
        finally:
            self._taken -= reservation.taken

    def take(self, wanted: int, reservation: Reservation) -> None:
        """Charge bytes to a reservation.

        Raises:
            Problem: `unavailable`: there is no memory left.
        """
        self.require_space(wanted, reservation)
        self._taken += wanted
        reservation.taken += wanted

    def require_space(self, wanted: int, reservation: Reservation) -> None:
        """Refuse what does not fit in beside the other recordings, if there are any.

        Raises:
            Problem: `unavailable`.
        """
        others = self._taken - reservation.taken
        if others and self._taken + wanted > self._most:
            raise no_memory(f"others take {others} bytes, this one needs {wanted} more")

    def _announced_by(self, request: Request) -> int:
        # The server reads no more of a body than was announced.
        try:
            announced = int(request.headers.get("content-length", ""))
        except ValueError:
            return self._largest
        return min(announced, self._largest) if announced >= 0 else self._largest


class Reservation:
    """The memory of one recording.

    Attributes:
        taken: how many bytes are charged to it.
    """

    def __init__(self, memory: UploadMemory) -> None:
        self._memory = memory
        self.taken = 0

    def add(self, received: int) -> None:
        """Charge bytes that have arrived.

        Raises:
            Problem: `unavailable`: there is no memory left for them.
        """
        self._memory.take(COPIES * received, self)


def no_memory(reason: str) -> Problem:
    """Log that a recording is refused for now, and return the problem that tells the client."""
    _LOG.warning("no memory for a recording: %s", reason, extra={"event": "unavailable"})
    detail = "There is no room for the recording just now; please try again."
    return Problem(503, "unavailable", detail, {"Retry-After": "2"})
