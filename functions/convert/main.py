"""convert: the container that converts a recording to the character's voice.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from functions.convert.admission import Admission
from functions.convert.app import ConvertApp, create_app
from functions.convert.character_loading import CharacterLoader, build_character
from functions.convert.characters import BuiltInCharacters, LoadedCharacter
from functions.convert.conversion import Conversion
from functions.convert.fetched_characters import FetchedCharacters, Limits
from functions.convert.rehearsal import connect, rehearse
from functions.convert.serving import serve_until_signal
from functions.convert.settings import ConverterSettings, ConvertSettings
from functions.convert.stopwatch import process_age_ms
from functions.convert.worker import Worker
from shared import logs, settings
from shared.character_bucket import CharacterBucket
from shared.characters import MAX_BUNDLE_BYTES
from shared.google import clients
from speech.audio.decoding import Decoder
from speech.bundles.bundle import BundleError
from speech.bundles.reading import load_characters
from speech.engines.base import SessionSettings
from speech.engines.registry import ENGINES
from speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
    from pathlib import Path

    from hypercorn.typing import ASGIFramework

    from functions.convert.characters import Characters
    from functions.convert.processes import Supervision
    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """Where an instance reads and writes.

    Attributes:
        voices: the voices' documents.
        uploads: the bucket of the recordings.
        results: the bucket of the results; it must be able to sign addresses.
        open_characters: opens the bucket of the characters; None if there is none.
    """

    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    open_characters: Callable[[], Bucket] | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """What an instance converts with.

    Attributes:
        decoder: has been started.
        characters: those of the image, loaded, by id.
        session: how the graphs of all characters run.
    """

    decoder: Decoder
    characters: Mapping[str, LoadedCharacter]
    session: SessionSettings = field(default_factory=SessionSettings)


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
    worker = Worker(
        stores.voices,
        characters,
        build_conversion(config, stores, tools),
        Admission(running=config.share(config.concurrency), waiting=config.share(config.backlog)),
        config.timeouts.conversion_deadline,
    )
    return create_app(worker, characters, clients.open_push_verifier(config), tools.decoder)


def lend_characters(
    config: ConverterSettings, tools: Tools, open_bucket: Callable[[], Bucket] | None
) -> Characters:
    """Return what lends the characters of the image, and those of the bucket if there is one."""
    built_in = BuiltInCharacters(tools.characters)
    if open_bucket is None:
        return built_in
    bucket = CharacterBucket(open_bucket)
    loader = CharacterLoader(bucket, tools.session, config.max_bundle_bytes)
    limits = Limits(config.characters_memory_bytes, config.characters_refresh_seconds)
    return FetchedCharacters(built_in, bucket, loader, limits)


def build_conversion(config: ConverterSettings, stores: Stores, tools: Tools) -> Conversion:
    """Return what converts recordings."""
    return Conversion(
        uploads=stores.uploads,
        results=stores.results,
        decoder=tools.decoder,
        limits=config.decode_limits,
        max_speech_seconds=config.max_speech_seconds,
        result_lifetime=timedelta(seconds=config.result_url_seconds),
    )


def open_stores(config: ConverterSettings) -> Stores:
    """Open the clients; must be called in the event loop that uses them."""
    signer = clients.open_signer(config)
    return Stores(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        results=clients.open_bucket(config, config.results_bucket, signer),
        open_characters=clients.characters_opener(config),
    )


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
    loop = asyncio.get_running_loop()
    session = SessionSettings(config.threads, config.provider, front_end=front_end or FrontEnd())
    loading = loop.run_in_executor(
        None, build_characters, config.characters_dir, session, config.max_bundle_bytes
    )
    starting = asyncio.create_task(decoder.start())
    # Let the event loop start the decoder's process now: the caller may block the loop for long.
    await asyncio.sleep(0)

    async def tools() -> Tools:
        characters, _ = await asyncio.gather(loading, starting)
        await rehearse(decoder, characters.values())
        return Tools(decoder, characters, session)

    both = asyncio.create_task(tools())
    try:
        yield both
    finally:
        both.cancel()
        await asyncio.gather(both, starting, return_exceptions=True)
        await decoder.aclose()


def build_characters(
    folder: Path, session: SessionSettings, max_bytes: int = MAX_BUNDLE_BYTES
) -> dict[str, LoadedCharacter]:
    """Load every character bundle of a folder and build its engine.

    Args:
        folder: of the bundles.
        session: how their graphs run.
        max_bytes: how many bytes the graphs of one bundle may have together.

    Raises:
        BundleError: a bundle will not work, or there is none.
    """
    return {
        name: build_character(character, session)
        for name, character in load_characters(folder, ENGINES, max_bytes).items()
    }


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


def log_start() -> None:
    """Log that this instance serves, and how long its start took."""
    extra: dict[str, Any] = {"event": "instance_started"}
    if (ready_ms := process_age_ms()) is not None:
        extra["ready_ms"] = ready_ms
    _LOG.info("serving", extra=extra)


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
    # Imported here, because Gunicorn is only needed for several processes.
    from functions.convert import processes  # noqa: PLC0415

    processes.run(config, serve_one)


def main() -> None:
    """Run the container; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(ConvertSettings)
        logs.configure(config.project_id, config.log_level, config.pseudonym_key)
        run(config, _serve)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)


if __name__ == "__main__":
    main()
