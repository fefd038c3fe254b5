"""The local cloud without Google's emulators: every service in this one process.

The deployables, the storage server and their HTTP are the same; only the voices' documents and the
topics are kept in memory.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config

from functions.api import main as api
from functions.api.settings import ApiSettings
from functions.convert import main as convert
from functions.convert.settings import ConvertSettings
from functions.dead_letter import main as dead_letter
from functions.dead_letter.settings import DeadLetterSettings
from functions.on_upload import main as on_upload
from functions.on_upload.settings import OnUploadSettings
from infra.local import names, provisioning
from infra.local.cloud import LocalCloud, choose_addresses, deployable_environments
from infra.local.keys import make_key
from infra.local.memory_topics import MemoryTopics
from infra.local.memory_voices import MemoryVoices
from infra.local.storage import create_app as create_storage
from shared import settings
from shared.google import clients

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from infra.local.cloud import Addresses, CloudOptions

STORAGE_VARIABLE: Final = "STORAGE_EMULATOR_HOST"


@asynccontextmanager
async def embedded_cloud(options: CloudOptions) -> AsyncIterator[LocalCloud]:
    """Serve everything from this process, and stop it at the end."""
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        addresses = choose_addresses(options, emulated=False)
        # The client library knows its emulator from nowhere else.
        os.environ[STORAGE_VARIABLE] = addresses.storage
        client = await stack.enter_async_context(httpx.AsyncClient())
        servers = await stack.enter_async_context(_Servers())

        topics = MemoryTopics(
            _Deliver(client), provisioning.plan_subscriptions(addresses, options.timeouts)
        )
        stack.push_async_callback(topics.aclose)
        key = make_key()
        key.write(scratch / "signing-key.json")
        storage = create_storage(
            root=scratch / "storage",
            publish=_publish_to(topics),
            keys={key.email: key.private_key.public_key()},
            signers={key.email: key.private_key},
        )
        servers.start(storage, addresses.storage)

        voices = MemoryVoices()
        environments = deployable_environments(options, addresses, scratch / "signing-key.json")
        await _start_deployables(
            stack,
            servers,
            addresses=addresses,
            environments=environments,
            voices=voices,
            topics=topics,
        )
        await servers.wait_until_ready(client)
        await provisioning.make_buckets(client, addresses.storage, addresses.origins)
        yield LocalCloud(addresses, options.web_root is not None, voices, servers.crashed)


async def _start_deployables(
    stack: AsyncExitStack,
    servers: _Servers,
    *,
    addresses: Addresses,
    environments: Mapping[str, Mapping[str, str]],
    voices: MemoryVoices,
    topics: MemoryTopics,
) -> None:
    config = settings.load(ConvertSettings, **_overrides(environments["convert"]))
    signer = clients.open_signer(config)
    uploads = clients.open_bucket(config, config.uploads_bucket, signer)
    results = clients.open_bucket(config, config.results_bucket, signer)
    stores = convert.Stores(voices=voices, uploads=uploads, results=results)
    tools = await stack.enter_async_context(convert.starting_tools(config))
    converter = convert.build(config, convert.Services(stores, await tools))
    stack.push_async_callback(converter.worker.drain)
    servers.start(converter, addresses.convert)

    api_config = settings.load(ApiSettings, **_overrides(environments["api"]))
    services = api.Services(voices=voices, uploads=uploads, results=results)
    servers.start(api.build(api_config, services), addresses.api)

    conversions = topics.publisher(names.topic_path(names.CONVERSIONS_TOPIC))
    on_upload_config = settings.load(OnUploadSettings, **_overrides(environments["on_upload"]))
    on_upload_services = on_upload.Services(voices, conversions, lambda: uploads)
    servers.start(on_upload.build(on_upload_config, on_upload_services), addresses.on_upload)
    dead_letter_config = settings.load(
        DeadLetterSettings, **_overrides(environments["dead_letter"])
    )
    dead_letter_services = dead_letter.Services(voices, results)
    servers.start(
        dead_letter.build(dead_letter_config, dead_letter_services), addresses.dead_letter
    )


class _Deliver:
    """Pushes messages with an HTTP client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self, endpoint: str, envelope: Mapping[str, Any]) -> int:
        try:
            # The subscription's acknowledgement deadline ends it.
            response = await self._client.post(endpoint, json=envelope, timeout=None)
        except httpx.HTTPError as error:
            raise OSError(str(error)) from error
        return response.status_code


class _Servers:
    """Serves ASGI applications from this process's event loop."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._serving: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def start(self, app: Any, url: str) -> None:
        """Serve an application at an address of 127.0.0.1."""
        config = Config()
        config.bind = [url.removeprefix("http://")]
        config.graceful_timeout = 1.0
        config.loglevel = "WARNING"
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=self._stop.wait))
        self._serving[serving] = url

    async def wait_until_ready(self, client: httpx.AsyncClient) -> None:
        """Wait until every server answers, whatever it answers."""
        for serving, url in self._serving.items():
            while not await _answers(client, url):
                if serving.done():
                    serving.result()
                await asyncio.sleep(0)

    async def crashed(self) -> str:
        """Return the address of the first server that ends."""
        done, _ = await asyncio.wait(self._serving, return_when=asyncio.FIRST_COMPLETED)
        return self._serving[done.pop()]


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        await client.get(f"{url}/healthz")
    except httpx.TransportError:
        return False
    return True


def _publish_to(topics: MemoryTopics) -> Any:
    async def publish(topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        topics.publish(topic, data, attributes)

    return publish


def _overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables as the settings' fields."""
    return {name.lower(): value for name, value in environment.items()}
