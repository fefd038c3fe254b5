"""`live` with barriers: `python -m tests.faults.live_with_barriers`.

It is functions.live.main's application; only its collaborators are wrapped.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

from conversion import composition
from conversion.starting import starting_tools
from functions.live import main as live
from functions.live.settings import LiveSettings
from shared.process import logs, settings
from tests.faults.barriers import VARIABLE, Checkpoints
from tests.faults.collaborators import BarrierResults, BarrierUploads, BarrierVoices

if TYPE_CHECKING:
    from shared.ports.bucket import Bucket


async def serve(config: LiveSettings) -> None:
    checkpoints = Checkpoints(os.environ[VARIABLE])
    stores = composition.open_stores(config)
    wrapped = composition.Stores(
        voices=BarrierVoices(stores.voices, checkpoints),
        uploads=cast("Bucket", BarrierUploads(stores.uploads, checkpoints)),
        results=cast("Bucket", BarrierResults(stores.results, checkpoints)),
    )
    async with starting_tools(config) as tools:
        await live.serve(config, live.Services(wrapped, await tools))


def main() -> None:
    config = settings.load(LiveSettings)
    logs.configure(config.project_id, config.log_level, config.pseudonym_key)
    asyncio.run(serve(config))


if __name__ == "__main__":
    main()
