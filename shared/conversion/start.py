"""The parts of a start that take longest, side by side: the decoder's process and the networks.

This module imports little, and a deployable that begins with it can import its clients and its
server while the networks load: loading seldom needs the interpreter.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.speech.decoding.decoder import Decoder
from shared.speech.graphs.onnx_files import PreloadedGraphs
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.watermark_engines import open_marker
from shared.speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping

    from shared.conversion.characters import LoadedCharacter
    from shared.conversion.settings import ConverterSettings
    from shared.speech.results.watermark_engines import Marker


@dataclass(frozen=True, slots=True)
class ConversionTools:
    decoder: Decoder
    characters: Mapping[str, LoadedCharacter]
    session: SessionSettings = field(default_factory=SessionSettings)
    marker: Marker | None = None


@asynccontextmanager
async def start_tools(
    config: ConverterSettings, front_end: FrontEnd | None = None
) -> AsyncIterator[Awaitable[ConversionTools]]:
    """Begin to start the decoder, load the characters and rehearse; stop the decoder at the end.

    This goes on in another process and another thread. Until the caller awaits the tools, it can
    do the other parts of the cold start. A front end may have words of users.
    """
    decoder = Decoder(max_processes=config.share(config.concurrency))
    session = SessionSettings(
        config.threads,
        config.provider,
        front_end=front_end or FrontEnd(),
        kokoro=config.kokoro_packages,
    )
    marker = open_marker(config)
    starting = asyncio.create_task(decoder.start())
    # Let the event loop start the decoder's process now: the caller may block the loop for long.
    await asyncio.sleep(0)
    graphs = PreloadedGraphs(config.characters_dir, ThreadPoolExecutor(1, "preloading"))
    # Imported here: the decoder starts and the graphs are read meanwhile.
    from shared.conversion.characters import build_and_rehearse, rehearse_decoding  # noqa: PLC0415

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

    async def tools() -> ConversionTools:
        characters, _ = await asyncio.gather(loading, decoding())
        graphs.close()
        return ConversionTools(decoder, characters, session, marker)

    both = asyncio.create_task(tools())
    try:
        yield both
    finally:
        both.cancel()
        await asyncio.gather(both, starting, return_exceptions=True)
        graphs.close()
        await decoder.aclose()
