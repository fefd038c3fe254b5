"""convert: the container that converts a recording to the character.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.convert.routes import convert_routes, verification_route
from shared.container.admission import Admission
from shared.conversion.composition import (
    ConversionServices,
    ConvertingApp,
    build_conversion,
    lend_characters,
    open_conversion_services,
    open_verifier,
    serve,
)
from shared.conversion.worker import Worker
from shared.google import clients
from shared.runtime.settings import QUEUE_SECONDS
from shared.runtime.traces import open_traces

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from functions.convert.settings import ConvertSettings
    from shared.container.supervision import Supervision
    from shared.conversion.start import ConversionTools


def build(config: ConvertSettings, services: ConversionServices) -> ConvertingApp:
    stores, tools = services.stores, services.tools
    characters = lend_characters(config, tools, stores.open_characters)
    running = config.share(config.concurrency)
    admission = Admission(
        running=running,
        # Messages do not come evenly to several processes.
        waiting=config.backlog,
        most_of_one=max(1, running - 1),
        # A refusal would slow down the delivery of everybody's messages (Pub/Sub's push backoff).
        patience=QUEUE_SECONDS,
    )
    worker = Worker(
        stores.voices,
        characters,
        build_conversion(config, stores, tools),
        admission,
        config.timeouts.conversion_deadline,
        own_characters=stores.own_characters,
        traces=open_traces(config, "convert"),
    )
    routes = [
        *convert_routes(worker, characters, clients.open_push_verifier(config)),
        verification_route(open_verifier(config, tools, admission.turn)),
    ]
    return ConvertingApp(routes, worker, tools.decoder)


async def serve_from_cloud(
    config: ConvertSettings,
    tools: Awaitable[ConversionTools],
    supervision: Supervision | None = None,
) -> None:
    """Open the clients while the tools start, and serve until SIGTERM or SIGINT."""
    async with open_conversion_services(config, tools) as services:
        await serve(build(config, services), config, services.stores, supervision)
