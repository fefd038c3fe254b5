"""live: the service that converts a recording while it comes over a WebSocket.

A faster way through the same pipeline: browser -> **live** -> recording, result and document. A
recording that it does not finish goes the way of every upload: topic `uploads` -> on_upload ->
convert.
"""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import WebSocketRoute

from functions.live.conversion import LiveConversion
from functions.live.messages import ConnectionLimits, HeldBytes
from functions.live.protocol import PATH
from functions.live.service import ConnectionAdmission, LiveService, SessionDependencies
from functions.live.settings import LiveSettings
from functions.live.stream import RecordingStreams, StreamDependencies
from shared.container.admission import Admission
from shared.container.process_plan import read_resources
from shared.container.server import run_container
from shared.conversion.composition import (
    ConversionServices,
    ConvertingApp,
    build_conversion,
    lend_characters,
    open_conversion_services,
    serve,
)
from shared.conversion.start import start_tools
from shared.conversion.worker import Worker
from shared.runtime.limits import PlacesPerClient
from shared.runtime.traces import open_traces
from shared.voices.tickets import Tickets

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def build(
    config: LiveSettings,
    services: ConversionServices,
    admission: Admission | None = None,
    others: ASGIApp | None = None,
) -> ConvertingApp:
    """Build the application from its settings and its services; it can convert at once.

    Other work may share the admission; `others` serve every route but those of `live`.
    """
    stores, tools = services.stores, services.tools
    conversion = build_conversion(config, stores, tools)
    admission = admission or open_admission(config)
    deadline = config.timeouts.conversion_deadline
    characters = lend_characters(config, tools, stores.open_characters)
    traces = open_traces(config, "live")
    worker = Worker(
        stores.voices,
        characters,
        conversion,
        admission,
        deadline,
        own_characters=stores.own_characters,
        traces=traces,
    )
    live_conversion = LiveConversion(
        stores.voices, stores.uploads, conversion, characters, admission, worker
    )
    shared = SessionDependencies(
        tickets=Tickets([key.get_secret_value() for key in config.live_ticket_keys]),
        voices=stores.voices,
        conversion=live_conversion,
        max_seconds=config.max_seconds,
        streams=_open_streams(config, services, live_conversion),
    )
    per_client = PlacesPerClient(config.sockets_per_client, config.trusted_proxies)
    connections = ConnectionAdmission(config.allowed_origins, config.sockets, per_client)
    limits = ConnectionLimits(
        config.max_upload_bytes, config.max_messages, config.listening_seconds
    )
    service = LiveService(connections, limits, HeldBytes(config.max_held_bytes), shared)

    async def drain() -> None:
        await service.drain(config.finishing_seconds)
        await worker.drain()

    route = WebSocketRoute(PATH, service.serve)
    return ConvertingApp([route], worker, tools.decoder, drain=drain, others=others)


def open_admission(config: LiveSettings) -> Admission:
    # Every recording that has come is converted: the number of connections is limited already.
    return Admission(running=config.concurrency, waiting=config.sockets)


def _open_streams(
    config: LiveSettings, services: ConversionServices, conversion: LiveConversion
) -> RecordingStreams | None:
    if config.hearings == 0:
        return None
    # Threads of their own: complete recordings must not wait for previews.
    tools = StreamDependencies(
        partial(
            services.tools.decoder.open_stream,
            limits=config.decode_limits,
            wall_seconds=config.listening_seconds,
        ),
        conversion.characters,
        conversion.admission,
        heard_in=ThreadPoolExecutor(math.ceil(read_resources().cpus), "hearing"),
        ahead_in=ThreadPoolExecutor(config.concurrency, "ahead"),
        own_characters=services.stores.own_characters,
    )
    return RecordingStreams(tools, config.hearings)


async def serve_live(config: LiveSettings) -> None:
    """Open the clients while the tools start, and serve until SIGTERM or SIGINT."""
    async with start_tools(config) as tools, open_conversion_services(config, tools) as services:
        app = build(config, services)
        await serve(app, config, services.stores, finishes_when_interrupted=True)


def main() -> None:
    run_container(LiveSettings, lambda config: asyncio.run(serve_live(config)))
