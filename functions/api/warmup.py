"""The warm-up: a request that makes Cloud Run start an instance while the visitor still speaks."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

_LOG = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 30.0  # for an instance to start; only the warm-up itself waits for it
SENDING_SECONDS: Final = 0.5  # the longest time for which a visitor waits until it has been sent
ARRIVAL_SECONDS: Final = 2.0  # over which arrivals are counted, less than a visitor speaks
# The time for which a voice takes two places of a converter: one converts, another one waits. A
# voice of 3 s converts for .3 to .6 s.
SLOT_SECONDS: Final = 1.0


Identity = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers of a request that prove the sender to Cloud Run."""


async def no_identity() -> Mapping[str, str]:
    return {}


class GoogleIdentity:
    """An OIDC token of the deployable's own service account, from the metadata server."""

    def __init__(self, audience: str) -> None:
        self._audience = audience
        self._credentials: Any = None
        self._one_refresh = asyncio.Lock()

    async def __call__(self) -> Mapping[str, str]:
        async with self._one_refresh:
            if self._credentials is None or not self._credentials.valid:
                await asyncio.to_thread(self._refresh)
        return {"Authorization": f"Bearer {self._credentials.token}"}

    def _refresh(self) -> None:
        # Imported here: the local cloud needs none of it.
        from google.auth.transport.requests import Request  # noqa: PLC0415
        from google.oauth2.id_token import fetch_id_token_credentials  # noqa: PLC0415

        request = Request()
        if self._credentials is None:
            self._credentials = fetch_id_token_credentials(self._audience, request=request)
        self._credentials.refresh(request)


@dataclass(frozen=True, slots=True)
class _Request:
    sent: asyncio.Event
    answered: asyncio.Task[None]


class WarmUp:
    """Warms up as many slots of converters as the arriving visitors will soon take.

    A warm-up that waits for an instance to start stands for one slot that is wanted. By Little's
    law R visitors a second take R times `SLOT_SECONDS` slots, so no more warm-ups than that are
    under way: one for a single visitor, and many for a crowd. Cloud Run starts an instance for as
    many waiting requests as an instance has slots. A warm instance answers at once and keeps none
    of them waiting, so a service that is large enough already is not made larger.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        identity: Identity,
        *,
        most: int = 40,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._url = url
        self._identity = identity
        self._most = most
        self._now = now
        self._under_way: defaultdict[str | None, list[_Request]] = defaultdict(list)
        self._arrivals: defaultdict[str | None, deque[float]] = defaultdict(deque)

    @asynccontextmanager
    async def sending(self, character: str | None = None) -> AsyncIterator[None]:
        task = asyncio.create_task(self.send(character))
        try:
            yield
        finally:
            await task

    async def send(self, character: str | None = None) -> None:
        """Send the warm-up and return when it has been sent, without waiting for its answer.

        A function may lose its CPU once it has answered, so later requests would come too late. A
        failure is only logged, because the conversion message starts an instance as well. The
        instance loads the `character`, if any.
        """
        under_way = self._under_way[character]
        count = sum(map(len, self._under_way.values()))
        if len(under_way) < self._wanted(character) and count < self._most:
            sent = asyncio.Event()
            begun = _Request(sent, asyncio.create_task(self._call(sent, character)))
            begun.answered.add_done_callback(lambda _: self._end(character, begun))
            under_way.append(begun)
        if not under_way:
            return
        request = under_way[-1]
        try:
            async with asyncio.timeout(SENDING_SECONDS):
                await request.sent.wait()
        except TimeoutError:
            _LOG.warning("the warm-up is slow to be sent", extra={"event": "warmup_slow"})

    async def aclose(self) -> None:
        for requests in self._under_way.values():
            for request in requests:
                request.answered.cancel()
        await self._client.aclose()

    def _wanted(self, character: str | None) -> int:
        """Count an arriving visitor, and return how many warm-ups may be under way."""
        now, arrivals = self._now(), self._arrivals[character]
        arrivals.append(now)
        while arrivals[0] <= now - ARRIVAL_SECONDS:
            arrivals.popleft()
        return math.ceil(len(arrivals) * SLOT_SECONDS / ARRIVAL_SECONDS)

    def _end(self, character: str | None, request: _Request) -> None:
        self._under_way[character].remove(request)
        if not self._under_way[character]:
            del self._under_way[character]

    async def _call(self, sent: asyncio.Event, character: str | None) -> None:
        async def trace(event: str, _info: Mapping[str, Any]) -> None:
            if event.endswith("send_request_body.complete"):
                sent.set()

        try:
            response = await self._client.get(
                self._url,
                params=None if character is None else {"character": character},
                headers=await self._identity(),
                timeout=ANSWER_SECONDS,
                extensions={"trace": trace},
            )
            response.raise_for_status()
        except Exception as error:  # noqa: BLE001 - the visitor is served, whatever the error
            _LOG.warning("warm-up failed: %r", error, extra={"event": "warmup_failed"})
        finally:
            sent.set()
