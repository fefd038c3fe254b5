"""Tells the trainer that a character waits."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import httpx

_LOG = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0


class TrainerCall:
    """Asks the trainer to look for characters, beside the answer to their owner.

    A request that fails is logged and not sent again: the trainer also looks by itself.

    Args:
        client: sends the requests.
        url: the trainer's address.
    """

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        """Send a request; does not wait for the answer."""
        task = asyncio.create_task(self._post())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _post(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                (await self._client.post(self._url)).raise_for_status()
        except (httpx.HTTPError, TimeoutError) as error:
            extra = {"event": "trainer_not_called"}
            _LOG.warning("the trainer was not called: %r", error, extra=extra)
