"""The warm-up: a request that makes Cloud Run start an instance while the visitor still speaks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

_LOG = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 30.0
"""How long an instance may take to start; only the warm-up itself waits for it."""

SENDING_SECONDS: Final = 0.5
"""How long the answer to a visitor may wait until the warm-up has been sent."""


class Identity(Protocol):
    """Proves to Cloud Run who sends a request."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that prove it."""
        ...


class NoIdentity:
    """Proves nothing; for the local cloud."""

    async def headers(self) -> Mapping[str, str]:
        """Return no headers."""
        return {}


class GoogleIdentity:
    """Sends an OIDC token of the deployable's own service account, from the metadata server.

    Args:
        audience: the audience of the token, which is the address of the Cloud Run service.
    """

    def __init__(self, audience: str) -> None:
        self._audience = audience
        self._credentials: Any = None
        self._one_refresh = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Return the header with a valid token."""
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
    """A warm-up under way.

    Attributes:
        sent: is set when it has been sent.
        answered: ends with its answer.
    """

    sent: asyncio.Event
    answered: asyncio.Task[None]


class WarmUp:
    """Warms the conversion container up; while one request is under way, no equal one is sent.

    Args:
        client: sends it.
        url: the container's warm-up address.
        identity: proves who sends it.
    """

    def __init__(self, client: httpx.AsyncClient, url: str, identity: Identity) -> None:
        self._client = client
        self._url = url
        self._identity = identity
        self._under_way: dict[str | None, _Request] = {}

    @asynccontextmanager
    async def sending(self, character: str | None = None) -> AsyncIterator[None]:
        """Send the warm-up while the work inside goes on; see `send`."""
        sending = asyncio.create_task(self.send(character))
        try:
            yield
        finally:
            await sending

    async def send(self, character: str | None = None) -> None:
        """Send the warm-up and return when it has been sent, without waiting for its answer.

        A function may lose its CPU once it has answered, so what is not sent by then comes too
        late. A failure is only logged, because the conversion message starts an instance as well.

        Args:
            character: the character that the instance shall load; None if it need not load one.
        """
        request = self._under_way.get(character) or self._begin(character)
        try:
            async with asyncio.timeout(SENDING_SECONDS):
                await request.sent.wait()
        except TimeoutError:
            _LOG.warning("the warm-up is slow to be sent", extra={"event": "warmup_slow"})

    async def aclose(self) -> None:
        """Cancel the warm-ups under way and close the client."""
        for request in self._under_way.values():
            request.answered.cancel()
        await self._client.aclose()

    def _begin(self, character: str | None) -> _Request:
        sent = asyncio.Event()
        request = _Request(sent, asyncio.create_task(self._call(sent, character)))
        self._under_way[character] = request
        request.answered.add_done_callback(lambda _: self._under_way.pop(character))
        return request

    async def _call(self, sent: asyncio.Event, character: str | None) -> None:
        async def note(event: str, _info: Mapping[str, Any]) -> None:
            if event.endswith("send_request_body.complete"):
                sent.set()

        try:
            headers = await self._identity.headers()
            response = await self._client.get(
                self._url,
                params=None if character is None else {"character": character},
                headers=headers,
                timeout=ANSWER_SECONDS,
                extensions={"trace": note},
            )
            response.raise_for_status()
        except Exception as error:  # noqa: BLE001 - the visitor is served, whatever the error
            _LOG.warning("warm-up failed: %r", error, extra={"event": "warmup_failed"})
        finally:
            sent.set()
