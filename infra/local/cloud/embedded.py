"""The local cloud without Google's emulators: every service runs in this one process.

The deployables, the storage server and their HTTP are the same; only the voices' documents and the
topics are kept in memory.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from functions.api import main as api
from functions.api.settings import ApiSettings
from functions.compat.voicevox.user_data import UserData
from functions.convert import main as convert
from functions.convert.settings import ConvertSettings
from functions.dead_letter import main as dead_letter
from functions.dead_letter.settings import DeadLetterSettings
from functions.live_and_compat import main as combined
from functions.live_and_compat.settings import LiveAndCompatSettings
from functions.on_upload import main as on_upload
from functions.on_upload.settings import OnUploadSettings
from functions.sweep import main as sweep
from functions.sweep.settings import SweepSettings
from infra.local.cloud import provisioning
from infra.local.cloud.local_cloud import LocalCloud
from infra.local.cloud.memory import MemoryOwnCharacters, MemoryTopics, MemoryVoices
from infra.local.cloud.trainer import LocalTrainer
from infra.local.configuration import names
from infra.local.configuration.environments import (
    STORAGE_VARIABLE,
    choose_addresses,
    deployable_environments,
    port_of,
)
from infra.local.configuration.keys import KEY_FILE, make_key
from infra.local.configuration.names import Ports
from infra.local.processes.cloud_run import RestartableApp
from infra.local.processes.servers import Servers
from infra.local.storage.app import create_app as create_storage
from shared.conversion.composition import ConversionServices, Stores
from shared.conversion.start import start_tools
from shared.google import clients
from shared.runtime import settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AsyncExitStack
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.cloud.local_cloud import Progress
    from infra.local.configuration.environments import Addresses
    from infra.local.configuration.options import CloudOptions, OwnCharacterOptions
    from shared.ports import Publisher

_Settings = TypeVar("_Settings", bound=settings.CommonSettings)


async def start_embedded(
    options: CloudOptions, scratch: Path, stack: AsyncExitStack, progress: Progress
) -> LocalCloud:
    ports = stack.enter_context(Ports())
    addresses = choose_addresses(options, ports, emulated=False)
    os.environ[STORAGE_VARIABLE] = addresses.storage
    client = await stack.enter_async_context(httpx.AsyncClient())
    servers = await stack.enter_async_context(Servers())

    async def deliver(endpoint: str, envelope: Mapping[str, Any]) -> int:
        try:
            seconds = options.timeouts.acknowledgement
            response = await client.post(endpoint, json=envelope, timeout=seconds)
        except httpx.HTTPError as error:
            raise OSError(str(error)) from error
        return response.status_code

    async def publish(topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        topics.publish(topic, data, attributes)

    subscriptions = provisioning.plan_subscriptions(addresses, options.timeouts)
    topics = MemoryTopics(deliver, subscriptions)
    stack.push_async_callback(topics.aclose)
    key, key_file = options.sign_in.key if options.sign_in else make_key(), scratch / KEY_FILE
    key.write(key_file)
    storage = create_storage(
        root=scratch / "storage",
        publish=publish,
        keys={key.email: key.private_key.public_key()},
    )
    servers.start(storage, addresses.storage)

    voices = MemoryVoices()
    environments = deployable_environments(options, addresses, key_file)
    deployables = _Deployables(environments, voices, topics)
    converter = RestartableApp(partial(deployables.converters, addresses))
    progress("loading the characters")
    await stack.enter_async_context(converter)
    progress("starting the servers")
    servers.start(converter, addresses.convert)
    servers.start(converter, str(addresses.live))
    maker = deployables.own_character_maker(options.own_characters)
    servers.start(deployables.api(maker), addresses.api)
    servers.start(deployables.on_upload(), addresses.on_upload)
    servers.start(deployables.dead_letter(), addresses.dead_letter)
    servers.start(deployables.sweep(), addresses.sweep)
    await servers.wait_until_ready(client)
    origins = addresses.origins(options)
    await provisioning.make_buckets(
        client, addresses.storage, origins, shards=options.upload_shards
    )
    if maker is not None:
        await stack.enter_async_context(maker.training())
    has_page = options.web_root is not None
    return LocalCloud(addresses, voices, servers.crashed, converter.restart, has_page)


@dataclass(frozen=True, slots=True)
class _Deployables:
    environments: Mapping[str, Mapping[str, str]]
    voices: MemoryVoices
    topics: MemoryTopics
    own_characters: MemoryOwnCharacters = field(default_factory=MemoryOwnCharacters)

    @asynccontextmanager
    async def converters(self, addresses: Addresses) -> AsyncIterator[ASGIApp]:
        """Start a converter and `live`, which share what they convert with, until the end."""
        config = self.load(ConvertSettings, "convert")
        live_config = self.load(LiveAndCompatSettings, "live")
        stores = Stores(
            voices=self.voices,
            uploads=clients.open_bucket(config, config.uploads_bucket),
            results=clients.open_bucket(config, config.results_bucket, clients.open_signer(config)),
            open_characters=clients.characters_opener(config),
            own_characters=self.own_characters,
        )
        user_data = UserData.open()
        async with start_tools(config, user_data.front_end()) as tools:
            services = ConversionServices(stores, await tools)
            app, live_port = convert.build(config, services), port_of(str(addresses.live))
            async with combined.build_with_compat(live_config, services, user_data) as live_app:

                async def by_port(scope: Scope, receive: Receive, send: Send) -> None:
                    # The start and the end of a server are no request and name no port.
                    is_live = scope["type"] != "lifespan" and scope["server"][1] == live_port
                    await (live_app if is_live else app)(scope, receive, send)

                try:
                    yield by_port
                finally:
                    await live_app.drain()
                    await app.drain()

    def own_character_maker(self, options: OwnCharacterOptions | None) -> LocalTrainer | None:
        if options is None:
            return None
        config = self.load(ApiSettings, "api")
        return LocalTrainer(config, options, self.own_characters)

    def api(self, maker: LocalTrainer | None) -> ASGIApp:
        config = self.load(ApiSettings, "api")
        uploads = clients.open_bucket(config, config.uploads_bucket, clients.open_signer(config))
        results = clients.open_bucket(config, config.results_bucket)
        services = api.ApiServices(
            self.voices,
            uploads,
            results,
            self.conversions,
            clients.characters_opener(config),
            own_characters=None if maker is None else maker.services,
        )
        return api.build(config, services)

    def on_upload(self) -> ASGIApp:
        config = self.load(OnUploadSettings, "on_upload")
        uploads = clients.open_bucket(config, config.uploads_bucket)
        services = on_upload.OnUploadServices(self.voices, self.conversions(), lambda: uploads)
        return on_upload.build(config, services)

    def dead_letter(self) -> ASGIApp:
        config = self.load(DeadLetterSettings, "dead_letter")
        uploads = clients.open_bucket(config, config.uploads_bucket)
        results = clients.open_bucket(config, config.results_bucket)
        return dead_letter.build(
            config,
            dead_letter.DeadLetterServices(self.voices, uploads, results, self.conversions()),
        )

    def sweep(self) -> ASGIApp:
        config = self.load(SweepSettings, "sweep")
        uploads = clients.open_bucket(config, config.uploads_bucket)
        services = sweep.SweepServices(self.voices, uploads, self.conversions())
        return sweep.build(config, services)

    def conversions(self) -> Publisher:
        return self.topics.publisher(names.topic_path(names.CONVERSIONS_TOPIC))

    def load(self, kind: type[_Settings], deployable: str) -> _Settings:
        environment = self.environments[deployable]
        fields = {name.lower(): value for name, value in environment.items()}
        return settings.load(kind, **fields)
