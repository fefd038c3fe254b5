"""`live` with barriers: `python -m tests.robustness.faults.live_with_barriers`.

It is functions.live.main's application; only its collaborators are wrapped.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

from functions.live import main as live
from functions.live.settings import LiveSettings
from shared.conversion import composition
from shared.conversion.start import start_tools
from shared.runtime import settings
from tests.robustness.faults.barriers import VARIABLE, Checkpoints
from tests.robustness.faults.collaborators import (
    BarrierResults,
    BarrierUploads,
    BarrierVoices,
)

if TYPE_CHECKING:
    from shared.ports import Bucket


async def serve(config: LiveSettings) -> None:
    checkpoints = Checkpoints(os.environ[VARIABLE])
    stores = composition.open_stores(config)
    wrapped = composition.Stores(
        voices=BarrierVoices(stores.voices, checkpoints),
        uploads=cast("Bucket", BarrierUploads(stores.uploads, checkpoints)),
        results=cast("Bucket", BarrierResults(stores.results, checkpoints)),
    )
    async with start_tools(config) as tools:
        app = live.build(config, composition.ConversionServices(wrapped, await tools))
        await composition.serve(app, config, wrapped, finishes_when_interrupted=True)


def main() -> None:
    config = settings.load(LiveSettings)
    config.configure_logs()
    asyncio.run(serve(config))


if __name__ == "__main__":
    main()
