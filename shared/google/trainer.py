"""Starts the job that makes visitors' own characters, or wakes the local cloud's trainer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import requests

from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

ANSWER_SECONDS: Final = 10.0


class TrainerUnavailableError(PassingError):
    """The trainer could not be started."""


class TrainerStart:
    """Starts a trainer with a request without a body.

    In Google Cloud the address is a job's `:run`, and the session's identity may run that job; the
    execution then finds what waits by itself.
    """

    def __init__(self, session: AuthorizedSession | requests.Session, url: str) -> None:
        self.session = session
        self._url = url

    async def __call__(self) -> None:
        """Send the request."""
        await asyncio.to_thread(self._post)

    def _post(self) -> None:
        # Imported here: the local cloud needs none of it.
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415

        try:
            answer = self.session.post(self._url, json={}, timeout=ANSWER_SECONDS)
            answer.raise_for_status()
        except (requests.RequestException, GoogleAuthError) as error:
            raise TrainerUnavailableError(f"the trainer was not started: {error!r}") from error
