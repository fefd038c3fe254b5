"""Starts what takes longest: the decoder's process and the networks, side by side.

This module imports little, and a deployable that begins with it can import its clients and its
server while the networks load: loading seldom needs the interpreter.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conversion.origin.watermarking import open_marker
from speech.bundles.preloading import PreloadedGraphs
from speech.decoding.decoder import Decoder
from speech.networks.settings import SessionSettings
from speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping

    from conversion.characters.lending import LoadedCharacter
    from conversion.settings import ConverterSettings
    from speech.results.watermark.marked import Marker


@dataclass(frozen=True, slots=True)
class Tools:
    """What an instance converts with.

    Attributes:
        decoder: has been started.
        characters: those of the image, loaded, by id.
        session: how the graphs of all characters run.
        marker: marks what they speak; None to mark nothing.
    """

    decoder: Decoder
    characters: Mapping[str, LoadedCharacter]
    session: SessionSettings = field(default_factory=SessionSettings)
    marker: Marker | None = None


@asynccontextmanager
async def starting_tools(
    config: ConverterSettings, front_end: FrontEnd | None = None
) -> AsyncIterator[Awaitable[Tools]]:
    """Begin to start the decoder, load the characters and rehearse; stop the decoder at the end.

    This goes on in another process and another thread. Until the caller awaits the tools, it can
    do the other parts of the cold start.

    Args:
        config: the settings.
        front_end: reads texts; None for one without words of users.
    """
    decoder = Decoder(max_processes=config.share(config.concurrency))
    session = SessionSettings(config.threads, config.provider, front_end=front_end or FrontEnd())
    marker = open_marker(config)
    starting = asyncio.create_task(decoder.start())
    # Let the event loop start the decoder's process now: the caller may block the loop for long.
    await asyncio.sleep(0)
    graphs = PreloadedGraphs(config.characters_dir, ThreadPoolExecutor(1, "preloading"))
    # Imported here: the decoder starts and the graphs are read meanwhile.
    from conversion.rehearsal import build_and_rehearse, rehearse_decoding  # noqa: PLC0415

    loading = asyncio.get_running_loop().run_in_executor(
        None,
        build_and_rehearse,
        config.characters_dir,
        session,
        config.max_bundle_bytes,
        marker,
        graphs.read,
    )

    async def decoding() -> None:
        await starting
        await rehearse_decoding(decoder)

    async def tools() -> Tools:
        characters, _ = await asyncio.gather(loading, decoding())
        graphs.close()
        return Tools(decoder, characters, session, marker)

    both = asyncio.create_task(tools())
    try:
        yield both
    finally:
        both.cancel()
        await asyncio.gather(both, starting, return_exceptions=True)
        graphs.close()
        await decoder.aclose()
