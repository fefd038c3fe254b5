"""live: the service that converts a recording while it comes over a WebSocket.

A faster way through the same pipeline: browser -> **live** -> recording, result and document. What
it does not bring to an end goes the way of every upload: topic `uploads` -> on_upload -> convert.
"""

from __future__ import annotations

import asyncio
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from conversion.admission import Admission
from conversion.composition import (
    Stores,
    build_conversion,
    lend_characters,
    log_start,
    open_stores,
)
from conversion.rehearsal import connect
from conversion.serving.planning import read_resources
from conversion.serving.serving import serve_until_signal
from conversion.starting import starting_tools
from conversion.worker import Worker
from functions.live.app import LiveApp, create_app
from functions.live.conversion import Computing, LiveConversion
from functions.live.listening.listening import Listeners, ListeningTools
from functions.live.messages.intake import ConnectionLimits, HeldBytes
from functions.live.service import Door, LiveService, ServiceLimits
from functions.live.session import Collaborators
from functions.live.settings import LiveSettings
from shared.http.places import PlacesPerClient
from shared.process import logs, settings
from shared.process.tracing import open_traces
from shared.voices.live_tickets import Tickets
from speech.bundles.bundle import BundleError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp

    from conversion.starting import Tools
    from speech.decoding.decoder import Decoder
    from speech.text.front_end import FrontEnd


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the application needs beside its settings.

    Attributes:
        stores: where it reads and writes.
        tools: what it converts with.
        admission: how much is converted at once; None for as much as the settings say.
        others: serves every route but those of `live`; None if there is no other.
    """

    stores: Stores
    tools: Tools
    admission: Admission | None = None
    others: ASGIApp | None = None


def build(config: LiveSettings, services: Services) -> LiveApp:
    """Build the application from its settings and its services; it can convert at once.

    Whoever serves it awaits `app.drain()` before it ends.
    """
    stores, tools = services.stores, services.tools
    conversion = build_conversion(config, stores, tools)
    admission = services.admission or open_admission(config)
    deadline = config.timeouts.conversion_deadline
    characters = lend_characters(config, tools, stores.open_characters)
    traces = open_traces(config, "live")
    worker = Worker(stores.voices, characters, conversion, admission, deadline, traces=traces)
    computing = Computing(conversion, characters, admission)
    shared = Collaborators(
        tickets=Tickets([key.get_secret_value() for key in config.live_ticket_keys]),
        voices=stores.voices,
        conversion=LiveConversion(stores.voices, stores.uploads, computing, worker),
        max_seconds=config.max_seconds,
        listen=_open_listeners(config, tools.decoder, computing),
    )
    per_client = PlacesPerClient(config.sockets_per_client, config.trusted_proxies)
    door = Door(config.allowed_origins, config.sockets, per_client)
    each = ConnectionLimits(config.max_upload_bytes, config.max_messages, config.listening_seconds)
    limits = ServiceLimits(each, HeldBytes(config.max_held_bytes))
    service = LiveService(door, limits, shared)

    async def drain() -> None:
        await service.drain(config.finishing_seconds)
        await worker.drain()

    return create_app(service, worker, tools.decoder, drain, services.others)


def open_admission(config: LiveSettings) -> Admission:
    """Build the limit of what one instance converts at once."""
    # Every recording that has come is converted: how many come at once is limited already.
    return Admission(running=config.concurrency, waiting=config.sockets)


def _open_listeners(
    config: LiveSettings, decoder: Decoder, computing: Computing
) -> Listeners | None:
    """Build the listeners to recordings that still come, or None if HEARINGS is 0."""
    if config.hearings == 0:
        return None
    # Threads of their own: complete recordings must not wait for what is only heard.
    tools = ListeningTools(
        partial(
            decoder.open_stream,
            limits=config.decode_limits,
            wall_seconds=config.listening_seconds,
        ),
        computing.characters,
        computing.admission,
        heard_in=ThreadPoolExecutor(math.ceil(read_resources().cpus), "hearing"),
        ahead_in=ThreadPoolExecutor(config.concurrency, "ahead"),
    )
    return Listeners(tools, config.hearings)


async def serve(config: LiveSettings, services: Services) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way or hand it back."""
    app = build(config, services)
    log_start()
    await serve_until_signal(
        cast("ASGIFramework", app), config, app.drain, finishes_when_interrupted=True
    )
    await services.stores.voices.aclose()


@asynccontextmanager
async def starting_services(
    config: LiveSettings, front_end: FrontEnd | None = None
) -> AsyncIterator[Services]:
    """Open the clients and start the tools, side by side; stop the tools at the end.

    Args:
        config: the settings.
        front_end: reads texts; None for one without words of users.
    """
    async with starting_tools(config, front_end) as tools, AsyncExitStack() as stack:
        stores = open_stores(config)
        connecting = connect(stores.voices, stores.uploads, stores.results)
        stack.callback(asyncio.create_task(connecting).cancel)
        yield Services(stores, await tools)


async def _serve(config: LiveSettings) -> None:
    async with starting_services(config) as services:
        await serve(config, services)


def main() -> None:
    """Run the service; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(LiveSettings)
        logs.configure(
            config.project_id,
            config.log_level,
            config.pseudonym_key,
            has_traces=config.traces is not None,
        )
        asyncio.run(_serve(config))
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)


if __name__ == "__main__":
    main()
