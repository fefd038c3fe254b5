"""convert: the container that converts a recording to the character's voice.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from conversion.admission import Admission
from conversion.composition import (
    Stores,
    build_conversion,
    lend_characters,
    log_start,
    open_stores,
    open_verifier,
)
from conversion.rehearsal import connect
from conversion.serving.serving import serve_until_signal
from conversion.worker import Worker
from functions.convert.app import ConvertApp, create_app
from functions.convert.verifications import verification_route
from shared.google import clients
from shared.process.tracing import open_traces

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hypercorn.typing import ASGIFramework

    from conversion.serving.processes import Supervision
    from conversion.starting import Tools
    from functions.convert.settings import ConvertSettings


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the application needs beside its settings."""

    stores: Stores
    tools: Tools


def build(config: ConvertSettings, services: Services) -> ConvertApp:
    """Build the application from its settings and its services; it can convert at once.

    Whoever serves it awaits `app.worker.drain()` before it ends.
    """
    stores, tools = services.stores, services.tools
    characters = lend_characters(config, tools, stores.open_characters)
    admission = Admission(
        running=config.share(config.concurrency), waiting=config.share(config.backlog)
    )
    worker = Worker(
        stores.voices,
        characters,
        build_conversion(config, stores, tools),
        admission,
        config.timeouts.conversion_deadline,
        traces=open_traces(config, "convert"),
    )
    verification = verification_route(open_verifier(config, tools, admission.running))
    return create_app(
        worker, characters, clients.open_push_verifier(config), tools.decoder, [verification]
    )


async def serve(
    config: ConvertSettings,
    stores: Stores,
    tools: Awaitable[Tools],
    supervision: Supervision | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then hand the voices back that are under way.

    Args:
        config: the settings.
        stores: where the instance reads and writes; closed at the end.
        tools: what it converts with, once they are ready; see `starting_tools`.
        supervision: by Gunicorn, if there are several processes.
    """
    app = build(config, Services(stores, await tools))
    log_start()
    await serve_until_signal(
        cast("ASGIFramework", app),
        config,
        app.worker.drain,
        supervision,
        lambda: app.worker.is_stuck,
    )
    await stores.voices.aclose()


async def serve_from_cloud(
    config: ConvertSettings, tools: Awaitable[Tools], supervision: Supervision | None = None
) -> None:
    """Open the clients and connect them while the tools start, and serve."""
    async with AsyncExitStack() as stack:
        stores = open_stores(config)
        connecting = connect(stores.voices, stores.uploads, stores.results)
        stack.callback(asyncio.create_task(connecting).cancel)
        await serve(config, stores, tools, supervision)
