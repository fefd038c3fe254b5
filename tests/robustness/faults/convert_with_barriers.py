"""The conversion container with barriers, as `tests.robustness.faults.convert_with_barriers`.

It is functions.convert.main's application; only its collaborators are wrapped.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from functions.convert import main as convert
from functions.convert import process
from functions.convert.settings import ConvertSettings
from shared.conversion import composition
from shared.conversion.start import ConversionTools, start_tools
from shared.runtime import settings
from tests.robustness.faults.barriers import VARIABLE, Checkpoints
from tests.robustness.faults.collaborators import (
    BarrierDecoder,
    BarrierEngine,
    BarrierResults,
    BarrierUploads,
    BarrierVoices,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from shared.container.supervision import Supervision
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder


async def serve(config: ConvertSettings, supervision: Supervision | None = None) -> None:
    checkpoints = Checkpoints(os.environ[VARIABLE])
    stores = composition.open_stores(config)
    wrapped = composition.Stores(
        voices=BarrierVoices(stores.voices, checkpoints),
        uploads=cast("Bucket", BarrierUploads(stores.uploads, checkpoints)),
        results=cast("Bucket", BarrierResults(stores.results, checkpoints)),
    )

    async def behind_barriers(starting: Awaitable[ConversionTools]) -> ConversionTools:
        tools = await starting
        characters = {
            name: replace(character, engine=BarrierEngine(character.engine, checkpoints))
            for name, character in tools.characters.items()
        }
        return ConversionTools(
            cast("Decoder", BarrierDecoder(tools.decoder, checkpoints)), characters
        )

    async with start_tools(config) as tools:
        services = composition.ConversionServices(wrapped, await behind_barriers(tools))
        await composition.serve(convert.build(config, services), config, wrapped, supervision)


def main() -> None:
    config = settings.load(ConvertSettings)
    config.configure_logs()
    process.run(config, serve)


if __name__ == "__main__":
    main()
