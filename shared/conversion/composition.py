"""The parts that convert and live share, built from their settings, and their application."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route

from shared.characters.bucket import CharacterBucket
from shared.container.server import Work, serve_until_signal
from shared.conversion.bucket_characters import BucketCharacters
from shared.conversion.characters import BuiltInCharacters, CharacterLoader, connect
from shared.conversion.provenance import ResultCredentials, open_notice
from shared.conversion.stages import Conversion
from shared.conversion.stopwatch import process_age_ms
from shared.conversion.verification import Verifier
from shared.google import clients
from shared.runtime.fast_start import spare_what_is_there
from shared.runtime.logs import TraceMiddleware
from shared.runtime.settings import SettingsError
from shared.speech.results.credentials import CredentialSigner, raw_signature, sign_with
from shared.speech.results.watermark_engines import watermark_keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from hypercorn.typing import ASGIFramework
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from shared.characters.own.store import OwnCharacterStore
    from shared.container.supervision import Supervision
    from shared.conversion.characters import CharacterLender
    from shared.conversion.provenance import CredentialSettings
    from shared.conversion.settings import ConverterSettings
    from shared.conversion.start import ConversionTools
    from shared.conversion.worker import Worker
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder
    from shared.voices.store import VoiceStore

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores and buckets of an instance; the last two are None where all is built in."""

    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    open_characters: Callable[[], Bucket] | None = None
    own_characters: OwnCharacterStore | None = None


@dataclass(frozen=True, slots=True)
class ConversionServices:
    stores: Stores
    tools: ConversionTools


class ConvertingApp(Starlette):
    """An application with probes, whose server awaits `drain`; `others` serve other routes."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        worker: Worker,
        decoder: Decoder,
        *,
        drain: Callable[[], Awaitable[None]] | None = None,
        others: ASGIApp | None = None,
    ) -> None:
        async def readyz(_request: Request) -> Response:
            return Response(status_code=204 if decoder.is_ready else 503)

        async def healthz(_request: Request) -> Response:
            return Response(status_code=503 if worker.is_stuck else 204)

        probes = [Route("/readyz", readyz), Route("/healthz", healthz)]
        rest = [] if others is None else [Mount("/", others)]
        super().__init__(routes=[*routes, *probes, *rest], middleware=[Middleware(TraceMiddleware)])
        self.worker = worker
        self.drain = drain or worker.drain


def lend_characters(
    config: ConverterSettings, tools: ConversionTools, open_bucket: Callable[[], Bucket] | None
) -> CharacterLender:
    built_in = BuiltInCharacters(tools.characters)
    if open_bucket is None:
        return built_in
    bucket = CharacterBucket(open_bucket)
    loader = CharacterLoader(bucket, tools.session, config.max_bundle_bytes, marker=tools.marker)
    return BucketCharacters(
        built_in,
        bucket,
        loader,
        memory_bytes=config.characters_memory_bytes,
        refresh_seconds=config.characters_refresh_seconds,
    )


def build_conversion(
    config: ConverterSettings, stores: Stores, tools: ConversionTools
) -> Conversion:
    return Conversion(
        uploads=stores.uploads,
        results=stores.results,
        decoder=tools.decoder,
        limits=config.decode_limits,
        max_speech_seconds=config.max_speech_seconds,
        result_lifetime=timedelta(seconds=config.result_url_seconds),
        credentials=open_credentials(config),
        notice=open_notice(config),
    )


def open_verifier(
    config: ConverterSettings,
    tools: ConversionTools,
    turn: Callable[[], AbstractAsyncContextManager[object]],
) -> Verifier:
    keys = watermark_keys(config.watermark_keys)
    return Verifier(tools.decoder, keys, config.c2pa_own_certificates, turn)


def open_credentials(config: CredentialSettings) -> ResultCredentials | None:
    """Open the signer of results and load its library in the background; None without one."""
    if not config.c2pa_certificates:
        return None
    if config.c2pa_key is not None:
        try:
            sign = sign_with(config.c2pa_key.get_secret_value().encode())
        except ValueError as error:
            raise SettingsError(f"C2PA_KEY is wrong: {error}") from None
    else:
        kms_key = clients.open_kms_key(str(config.c2pa_kms_key), config.c2pa_seconds)

        def sign(data: bytes) -> bytes:
            return raw_signature(kms_key.sign(data))

    signer = CredentialSigner(config.c2pa_certificates, sign, config.c2pa_time_stamp_url)
    credentials = ResultCredentials(signer, config.c2pa_seconds)
    credentials.load()
    return credentials


@asynccontextmanager
async def open_conversion_services(
    config: ConverterSettings, tools: Awaitable[ConversionTools]
) -> AsyncIterator[ConversionServices]:
    """Open the clients and connect them while the tools start; see `start_tools`."""
    stores = open_stores(config)
    connecting = asyncio.create_task(connect(stores.voices, stores.uploads, stores.results))
    try:
        yield ConversionServices(stores, await tools)
    finally:
        connecting.cancel()


async def serve(
    app: ConvertingApp,
    config: ConverterSettings,
    stores: Stores,
    supervision: Supervision | None = None,
    *,
    finishes_when_interrupted: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, then end the work under way or hand it back."""
    log_start()
    await serve_until_signal(
        cast("ASGIFramework", app),
        config,
        Work(
            drain=app.drain,
            is_stuck=lambda: app.worker.is_stuck,
            seconds=lambda: app.worker.worked_seconds,
        ),
        supervision,
        finishes_when_interrupted=finishes_when_interrupted,
    )
    await stores.voices.aclose()
    if stores.own_characters is not None:
        await stores.own_characters.aclose()


def open_stores(config: ConverterSettings) -> Stores:
    """Open the clients; must be called in the event loop that uses them."""
    signer = clients.open_signer(config)
    has_own = config.characters_bucket is not None
    return Stores(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        results=clients.open_bucket(config, config.results_bucket, signer),
        open_characters=clients.characters_opener(config),
        own_characters=clients.open_own_characters(config) if has_own else None,
    )


def log_start() -> None:
    """Log that this instance serves, and the time of its start; collect garbage from now on."""
    spare_what_is_there()
    extra: dict[str, Any] = {"event": "instance_started"}
    if (ready_ms := process_age_ms()) is not None:
        extra["ready_ms"] = ready_ms
    _LOG.info("serving", extra=extra)
