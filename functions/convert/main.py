"""convert: the container that converts a recording to the character's voice.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversion.admission import Admission
from conversion.composition import (
    Services,
    build_conversion,
    lend_characters,
    open_verifier,
    opened_services,
    serve,
)
from conversion.serving.app import ConvertingApp
from conversion.worker import Worker
from functions.convert.routes import convert_routes
from functions.convert.verifications import verification_route
from shared.google import clients
from shared.process.tracing import open_traces

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from conversion.serving.processes import Supervision
    from conversion.starting import Tools
    from functions.convert.settings import ConvertSettings


def build(config: ConvertSettings, services: Services) -> ConvertingApp:
    """Build the application from its settings and its services; it can convert at once.

    Whoever serves it awaits `app.drain()` before it ends.
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
    routes = [
        *convert_routes(worker, characters, clients.open_push_verifier(config)),
        verification_route(open_verifier(config, tools, admission.running)),
    ]
    return ConvertingApp(routes, worker, tools.decoder)


async def serve_from_cloud(
    config: ConvertSettings, tools: Awaitable[Tools], supervision: Supervision | None = None
) -> None:
    """Open the clients while the tools start, and serve until SIGTERM or SIGINT."""
    async with opened_services(config, tools) as services:
        await serve(build(config, services), config, services.stores, supervision)
