"""convert: the container that turns a recording into the character's voice.

The way of a voice, part three: topic `conversions` -> **convert** -> result object, `done`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from functions.convert.admission import Admission
from functions.convert.app import create_app
from functions.convert.conversion import Conversion, Performer
from functions.convert.rehearsal import connect, rehearse
from functions.convert.settings import ConvertSettings
from functions.convert.stopwatch import process_age_ms
from functions.convert.worker import Worker
from shared import logs, settings
from shared.google import clients
from speech.audio.decoding import Decoder
from speech.audio.recording import DecodeLimits
from speech.bundles.bundle import BundleError
from speech.bundles.reading import load_characters
from speech.engines.base import SessionSettings
from speech.engines.registry import ENGINES, build_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
    from pathlib import Path

    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework
    from starlette.applications import Starlette

    from functions.convert.processes import Membership
    from shared.google.cloud_storage import Bucket
    from shared.ports.store import VoiceStore

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Instance:
    """A conversion container, ready to serve."""

    app: Starlette
    worker: Worker


@dataclass(frozen=True, slots=True)
class Services:
    """What an instance speaks to; the results' bucket is able to sign."""

    voices: VoiceStore
    uploads: Bucket
    results: Bucket


@dataclass(frozen=True, slots=True)
class Tools:
    """What an instance works with: the decoder and the characters by id."""

    decoder: Decoder
    performers: Mapping[str, Performer]


def open_services(config: ConvertSettings) -> Services:
    """Open the clients; to be called in the event loop that uses them."""
    signer = clients.open_signer(config)
    return Services(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        results=clients.open_bucket(config, config.results_bucket, signer),
    )


@asynccontextmanager
async def open_instance(
    config: ConvertSettings, services: Services, tools: Awaitable[Tools]
) -> AsyncIterator[Instance]:
    """Start what an instance needs; it can convert as soon as this is entered.

    Args:
        config: the settings.
        services: what it speaks to; it does not close them.
        tools: what it works with, as soon as that is there; see `starting_tools`.
    """
    limits = DecodeLimits(
        min_seconds=config.min_seconds,
        max_seconds=config.max_seconds,
        max_bytes=config.max_upload_bytes,
    )
    verifier, ready = clients.open_push_verifier(config), await tools
    conversion = Conversion(
        uploads=services.uploads,
        results=services.results,
        decoder=ready.decoder,
        performers=ready.performers,
        limits=limits,
        result_lifetime=timedelta(seconds=config.result_url_seconds),
    )
    worker = Worker(
        services.voices,
        conversion,
        Admission(running=config.share(config.concurrency), waiting=config.share(config.backlog)),
        config.timeouts.conversion_deadline,
    )
    app = create_app(worker, verifier, ready.decoder)
    try:
        yield Instance(app, worker)
    finally:
        await worker.drain()


@asynccontextmanager
async def starting_tools(config: ConvertSettings) -> AsyncIterator[Awaitable[Tools]]:
    """Begin to start the decoder, load the characters and rehearse; stop the decoder at the end.

    That takes a process and a thread of their own: until the tools are awaited, the caller has
    other things to do for the cold start.
    """
    decoder = Decoder(max_processes=config.share(config.concurrency))
    loop = asyncio.get_running_loop()
    loading = loop.run_in_executor(None, load_performers, config.characters_dir, config.threads)
    starting = asyncio.create_task(decoder.start())
    # One turn of the loop, in which the process is started: the caller may not let it turn again.
    await asyncio.sleep(0)

    async def tools() -> Tools:
        performers, _ = await asyncio.gather(loading, starting)
        await rehearse(decoder, performers.values())
        return Tools(decoder, performers)

    both = asyncio.create_task(tools())
    try:
        yield both
    finally:
        both.cancel()
        await asyncio.gather(both, starting, return_exceptions=True)
        await decoder.aclose()


def load_performers(folder: Path, threads: int) -> dict[str, Performer]:
    """Load every character bundle of a folder, each verified."""
    session = SessionSettings(threads=threads)
    return {
        name: Performer(character.manifest, build_engine(character, session))
        for name, character in load_characters(folder, ENGINES).items()
    }


async def serve(
    config: ConvertSettings,
    services: Services,
    tools: Awaitable[Tools],
    membership: Membership | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then hand back what is under way; see `open_instance`.

    Args:
        config: the settings.
        services: what it speaks to.
        tools: what it works with.
        membership: of the processes beside this one; None if there are none.
    """
    # Imported here: the local cloud serves this application with a server of its own.
    from hypercorn.asyncio import serve as hypercorn_serve  # noqa: PLC0415

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_instance(config, services, tools) as instance, AsyncExitStack() as stack:
        if membership is not None:
            alive = membership.live(lambda: instance.worker.is_stuck)
            living = asyncio.create_task(_set_after(alive, stop))
            stack.callback(living.cancel)

        async def stopped() -> None:
            await stop.wait()
            await instance.worker.drain()

        _log_start()
        app = cast("ASGIFramework", instance.app)
        await hypercorn_serve(app, _server(config, membership), shutdown_trigger=stopped)
    await services.voices.aclose()


def _log_start() -> None:
    extra: dict[str, Any] = {"event": "instance_started"}
    if (ready_ms := process_age_ms()) is not None:
        extra["ready_ms"] = ready_ms
    _LOG.info("serving", extra=extra)


async def _set_after(end: Awaitable[None], event: asyncio.Event) -> None:
    await end
    event.set()


def _server(config: ConvertSettings, membership: Membership | None) -> Config:
    from hypercorn.config import Config  # noqa: PLC0415

    server = Config()
    server.bind = [f"{config.host}:{config.port}"]
    if membership is not None:
        server.bind = [f"fd://{descriptor}" for descriptor in membership.sockets]
    server.graceful_timeout = config.graceful_timeout
    server.keep_alive_timeout = config.keepalive
    server.max_requests = config.max_requests or None
    server.max_requests_jitter = config.max_requests_jitter
    server.errorlog = logging.getLogger("hypercorn")
    return server


async def _serve(config: ConvertSettings, membership: Membership | None = None) -> None:
    async with starting_tools(config) as tools, AsyncExitStack() as stack:
        services = open_services(config)
        connecting = connect(services.voices, services.uploads, services.results)
        stack.callback(asyncio.create_task(connecting).cancel)
        await serve(config, services, tools, membership)


def run(
    config: ConvertSettings,
    serve_one: Callable[[ConvertSettings, Membership | None], Coroutine[Any, Any, None]],
) -> None:
    """Run as many processes as the settings say, each of which serves, until SIGTERM.

    Raises:
        BundleError: a character bundle will not work; where there are several processes, Gunicorn
            prints that and exits with 4.
    """
    if config.is_alone:
        asyncio.run(serve_one(config, None))
        return
    # Imported here: one process needs nobody to watch over it but the platform.
    from functions.convert import processes  # noqa: PLC0415

    processes.run(config, serve_one)


def main() -> None:
    """Run the container's process; exit with 2 and a sentence if it is set up wrongly."""
    try:
        config = settings.load(ConvertSettings)
        logs.configure(config.project_id, config.log_level)
        run(config, _serve)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)


if __name__ == "__main__":
    main()
