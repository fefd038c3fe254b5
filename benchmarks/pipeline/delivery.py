"""Delivering messages in the emulator's stead, and noting when each hop was reached.

The emulator pushes to an endpoint one message after another until it has gained confidence; Pub/Sub
pushes at once. What is measured through the emulator's push under load is the emulator.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from infra.local.configuration import names
from infra.local.configuration.ports import Ports
from infra.local.memory.topics import ACKNOWLEDGING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    import httpx
    from starlette.requests import Request

    from infra.local.configuration.addresses import Addresses

_MOST_AT_ONCE: Final = 100


class Deliveries:
    """Stands between the topics on the way of a voice and those who are pushed to.

    `moments[voice_id]` holds, in seconds since the epoch, when each hop was reached: `published to
    TOPIC`, `arrived from TOPIC`, `answered to TOPIC`. `messages` counts deliveries by voice.
    `refused` counts those that were not acknowledged, so that their messages come again.

    Args:
        client: speaks to the emulator and pushes.
        addresses: of the local cloud.
    """

    def __init__(self, client: httpx.AsyncClient, addresses: Addresses) -> None:
        self._client = client
        self._pubsub = f"http://{addresses.pubsub}/v1"
        self._endpoints: Mapping[str, str] = {
            names.UPLOADS_TOPIC: addresses.on_upload,
            names.CONVERSIONS_TOPIC: f"{addresses.convert}/push",
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self.moments: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self.messages: defaultdict[str, int] = defaultdict(int)
        self.refused = 0

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Let the emulator push as ever, but through here."""
        ports = Ports()
        (port,) = ports.free(1)
        stop = asyncio.Event()
        config = Config()
        config.bind, config.loglevel = [f"127.0.0.1:{port}"], "WARNING"
        app: Any = Starlette(routes=[Route("/{topic}", self._take, methods=["POST"])])
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
        for topic in self._endpoints:
            await self._push_to(topic, f"http://127.0.0.1:{port}/{topic}")
        try:
            yield
        finally:
            for topic, endpoint in self._endpoints.items():
                await self._push_to(topic, endpoint)
            stop.set()
            await serving
            ports.close()

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[None]:
        """Pull the messages and push each as soon as it is there, as Pub/Sub does."""
        replaced = [await self._replace_subscription(topic) for topic in self._endpoints]
        for topic in self._endpoints:
            self._spawn(self._pull_for_ever(topic))
        try:
            yield
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for topic, subscription in zip(self._endpoints, replaced, strict=True):
                await self._send("DELETE", _pulled(topic))
                await self._send("PUT", _pushed(topic), subscription)

    async def _replace_subscription(self, topic: str) -> dict[str, Any]:
        """Put a pull subscription into a push subscription's place; return the latter.

        One of its own, because a pull that is given up may take a message with it.
        """
        subscription = await self._send("GET", _pushed(topic))
        await self._send("DELETE", _pushed(topic))
        kept = ("topic", "ackDeadlineSeconds", "retryPolicy", "deadLetterPolicy")
        await self._send("PUT", _pulled(topic), {name: subscription[name] for name in kept})
        return subscription

    async def _take(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        return Response(status_code=await self._deliver(topic, await request.json()))

    async def _pull_for_ever(self, topic: str) -> None:
        while True:
            pulled = await self._send(
                "POST", f"{_pulled(topic)}:pull", {"maxMessages": _MOST_AT_ONCE}
            )
            for received in pulled.get("receivedMessages", ()):
                self._spawn(self._deliver_pulled(topic, received))

    async def _deliver_pulled(self, topic: str, received: Mapping[str, Any]) -> None:
        envelope = {"message": received["message"], "subscription": _pushed(topic)}
        status = await self._deliver(topic, envelope)
        ids = {"ackIds": [received["ackId"]]}
        if status in ACKNOWLEDGING:
            await self._send("POST", f"{_pulled(topic)}:acknowledge", ids)
        else:
            again = ids | {"ackDeadlineSeconds": 0}
            await self._send("POST", f"{_pulled(topic)}:modifyAckDeadline", again)

    async def _deliver(self, topic: str, envelope: Mapping[str, Any]) -> int:
        message = envelope["message"]
        attributes = message["attributes"]
        voice_id = attributes.get("voice_id") or attributes["objectId"]
        moments = self.moments[voice_id]
        published = datetime.fromisoformat(message["publishTime"]).timestamp()
        # The first: another message comes when the recording is emptied.
        moments.setdefault(f"published to {topic}", published)
        moments.setdefault(f"arrived from {topic}", time.time())
        self.messages[voice_id] += 1
        answer = await self._client.post(self._endpoints[topic], json=envelope, timeout=None)
        moments[f"answered to {topic}"] = time.time()
        if answer.status_code not in ACKNOWLEDGING:
            self.refused += 1
        return answer.status_code

    async def _push_to(self, topic: str, endpoint: str) -> None:
        config = {"pushConfig": {"pushEndpoint": endpoint}}
        await self._send("POST", f"{_pushed(topic)}:modifyPushConfig", config)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        url = f"{self._pubsub}/{path}"
        response = await self._client.request(method, url, json=body, timeout=None)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pushed(topic: str) -> str:
    return names.subscription_path(f"{topic}-push")


def _pulled(topic: str) -> str:
    return names.subscription_path(f"{topic}-at-once")
