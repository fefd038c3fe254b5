"""convert: the container that converts a recording to the character's voice.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from conversion.admission import Admission
from conversion.composition import (
    Stores,
    Tools,
    build_conversion,
    lend_characters,
    log_start,
    open_stores,
    open_verifier,
    starting_tools,
)
from conversion.rehearsal import connect
from conversion.serving.serving import check_port, serve_until_signal
from conversion.worker import Worker
from functions.convert.app import ConvertApp, create_app
from functions.convert.settings import ConvertSettings
from functions.convert.verifications import verification_route
from shared.google import clients
from shared.process import logs, settings
from speech.bundles.bundle import BundleError
from speech.bundles.reading import load_characters
from speech.engines.registry import ENGINES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from hypercorn.typing import ASGIFramework

    from conversion.serving.processes import Supervision


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


async def _serve(config: ConvertSettings, supervision: Supervision | None = None) -> None:
    async with starting_tools(config) as tools, AsyncExitStack() as stack:
        stores = open_stores(config)
        connecting = connect(stores.voices, stores.uploads, stores.results)
        stack.callback(asyncio.create_task(connecting).cancel)
        await serve(config, stores, tools, supervision)


def run(
    config: ConvertSettings,
    serve_one: Callable[[ConvertSettings, Supervision | None], Coroutine[Any, Any, None]],
) -> None:
    """Run as many processes as the settings say, each of which serves, until SIGTERM.

    Raises:
        BundleError: a character bundle will not work, or there is none.
    """
    if config.is_alone:
        asyncio.run(serve_one(config, None))
        return
    # Checked once before the processes start: they would all fail, at different times.
    load_characters(config.characters_dir, ENGINES, config.max_bundle_bytes)
    # What is there already is shared by the processes, as long as nobody writes to it.
    gc.freeze()
    gc.enable()
    # Imported here, because Gunicorn is only needed for several processes.
    from conversion.serving import processes  # noqa: PLC0415

    processes.run(config, serve_one)


def main() -> None:
    """Run the container; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(ConvertSettings)
        logs.configure(config.project_id, config.log_level, config.pseudonym_key)
        check_port(config)
        run(config, _serve)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)


if __name__ == "__main__":
    main()
