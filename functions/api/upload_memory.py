"""How much memory the recordings take that come through the api, all together."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

_LOG = logging.getLogger(__name__)

ROOM_BYTES: Final = 200_000_000
"""What all recordings may take: an instance has 512 MiB, of which the rest needs up to half."""

COPIES: Final = 3
"""How often a recording lies in memory while it is stored.

As it was received (a file, but Cloud Run keeps files in memory), as the client library has read it,
and in the body of the library's request.
"""


class Room:
    """Lets recordings in while there is room for them.

    A recording counts with what its request announces, so that many of some seconds have the room
    of few of the largest size.

    Args:
        largest: how many bytes of a request are read at most.
        most: how many bytes all recordings may take, with every copy; one is let in anyway.
    """

    def __init__(self, largest: int, most: int = ROOM_BYTES) -> None:
        self._largest = largest
        self._most = most
        self._taken = 0

    @contextmanager
    def taken_for(self, request: Request) -> Iterator[None]:
        """Keep room for the recording of a request whose body was not read yet.

        Raises:
            Problem: `unavailable`: there is none; the client may come back, or find another
                instance.
        """
        wanted = COPIES * self._most_of(request)
        if self._taken and self._taken + wanted > self._most:
            raise no_room(f"the others take {self._taken} bytes, this one {wanted}")
        self._taken += wanted
        try:
            yield
        finally:
            self._taken -= wanted

    def _most_of(self, request: Request) -> int:
        # The server reads no more of a body than was announced.
        try:
            announced = int(request.headers.get("content-length", ""))
        except ValueError:
            return self._largest
        return min(announced, self._largest) if announced >= 0 else self._largest


def no_room(reason: str) -> Problem:
    """Log that a recording is sent away for now, and return the problem that tells the client."""
    _LOG.warning("no room for a recording: %s", reason, extra={"event": "unavailable"})
    detail = "There is no room for the recording just now; please try again."
    return Problem(503, "unavailable", detail, {"Retry-After": "2"})
