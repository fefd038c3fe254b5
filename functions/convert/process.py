"""The processes of the container: they load the networks first, and import the rest meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from functions.convert.settings import ConvertSettings
from shared.container.server import require_supervision, run_container
from shared.conversion.start import start_tools
from shared.runtime.fast_start import spare_what_is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from shared.container.supervision import Supervision


async def serve_here(config: ConvertSettings, supervision: Supervision | None = None) -> None:
    async with start_tools(config) as tools:
        # Imported here: the clients and the server take as long as the networks, which load in a
        # thread meanwhile.
        import hypercorn.asyncio  # noqa: F401, PLC0415 - for serve_until_signal

        from functions.convert.main import serve_from_cloud  # noqa: PLC0415

        await serve_from_cloud(config, tools, supervision)


def run(
    config: ConvertSettings,
    serve_one: Callable[[ConvertSettings, Supervision | None], Coroutine[Any, Any, None]],
) -> None:
    """Run the planned processes, each of which serves, until SIGTERM; may raise BundleError."""
    if config.is_alone:
        asyncio.run(serve_one(config, None))
        return
    require_supervision()
    # Gunicorn is only needed for several processes, which share what is imported before they start.
    from functions.convert import main as _shared  # noqa: F401, PLC0415
    from shared.container import supervision  # noqa: PLC0415
    from shared.speech.engines.registry import ENGINES  # noqa: PLC0415
    from shared.speech.graphs.bundle_folders import load_characters  # noqa: PLC0415

    # Checked once before the processes start: they would all fail, at different times.
    load_characters(config.characters_dir, ENGINES, config.max_bundle_bytes)
    spare_what_is_there()
    supervision.run(config, serve_one)


def main() -> None:
    run_container(ConvertSettings, partial(run, serve_one=serve_here))
