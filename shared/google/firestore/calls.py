"""Calls to Firestore that are tried again, each time on the connection of that time."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.api_core import exceptions as google_errors
from google.api_core.datetime_helpers import DatetimeWithNanoseconds
from google.api_core.retry import if_exception_type
from google.api_core.retry_async import AsyncRetry

from shared.ports.store import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from shared.google.firestore.client import RenewableClient

CALL_SECONDS: Final = 10.0
"""How long one call may take with its retries; after that, Pub/Sub delivers the message again."""

# Every write names the state that it replaces, or says that there is none, so the second try shows
# whether the first one was applied. Calls whose connection is reset end with Unknown or Cancelled.
_TRIED_AGAIN: Final = (
    google_errors.Cancelled,
    google_errors.DeadlineExceeded,
    google_errors.InternalServerError,
    google_errors.ResourceExhausted,
    google_errors.ServiceUnavailable,
    google_errors.Unknown,
)
_PASSING: Final = (
    *_TRIED_AGAIN,
    google_errors.Aborted,
    google_errors.RetryError,
)
_FIRST_PAUSE_SECONDS: Final = 0.1

ATTEMPT_SECONDS: Final = 4.0
"""How long one try of a call may take; the next one goes over a new connection."""

_Answer = TypeVar("_Answer")


class Calls:
    """Calls a method of the client until Firestore answers.

    The library's own retry would stay on the connection of the first try.

    Args:
        client: the Firestore client.
    """

    def __init__(self, client: RenewableClient) -> None:
        self._client = client
        self._retry = AsyncRetry(
            if_exception_type(*_TRIED_AGAIN),
            initial=_FIRST_PAUSE_SECONDS,
            timeout=CALL_SECONDS,
            on_error=self._take_new_connection,
        )

    async def call(
        self, call: Callable[..., Awaitable[_Answer]], *arguments: Any, **options: Any
    ) -> _Answer:
        """Call Firestore until it answers; each try uses the connection of its time."""
        attempt = partial(call, *arguments, retry=None, timeout=ATTEMPT_SECONDS, **options)
        return await self._retry(attempt)()

    def _take_new_connection(self, error: Exception) -> None:
        """Leave a connection on which nothing was answered in time."""
        if isinstance(error, google_errors.DeadlineExceeded):
            self._client.renew()


def moment_of(time: Any) -> datetime:
    """Return a time as a time: a search of several collections brings Firestore's raw ones."""
    return time if isinstance(time, datetime) else DatetimeWithNanoseconds.from_timestamp_pb(time)


@contextmanager
def passing_errors() -> Iterator[None]:
    """Turn errors that pass into `StoreUnavailableError`."""
    try:
        yield
    except _PASSING as error:
        raise StoreUnavailableError(f"Firestore did not answer: {error}") from error
