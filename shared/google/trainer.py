"""The start of the job that trains own characters, or the call that wakes the local trainer."""

from __future__ import annotations

import asyncio
from functools import partial
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

    In Google Cloud the address is a job's `:run`, which the session's identity may call; the job
    finds its work by itself.
    """

    def __init__(self, session: AuthorizedSession | requests.Session, url: str) -> None:
        self.session = session
        self._url = url

    async def __call__(self) -> None:
        # Imported here: the local cloud needs none of it.
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415

        post = partial(self.session.post, self._url, json={}, timeout=ANSWER_SECONDS)
        try:
            (await asyncio.to_thread(post)).raise_for_status()
        except (requests.RequestException, GoogleAuthError) as error:
            raise TrainerUnavailableError(f"the trainer was not started: {error!r}") from error
