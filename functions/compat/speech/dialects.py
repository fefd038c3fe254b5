"""Several dialects behind one port: the path says which one is spoken."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.compat.keys.access import Refuse


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API that clients know.

    Attributes:
        paths: with what its paths begin.
        app: serves them.
        refuse: answers refusals in its form.
    """

    paths: tuple[str, ...]
    app: ASGIApp
    refuse: Refuse


class Dialects:
    """ASGI application: hands each request to the first dialect whose path it has.

    Args:
        dialects: the last one takes what the others do not.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "/")
        fitting = (each for each in self._dialects if path.startswith(each.paths))
        # Who left in the middle of a body gets no answer, and the log no trace of the stack.
        with suppress(ClientDisconnect):
            await next(fitting, self._dialects[-1]).app(scope, receive, send)
