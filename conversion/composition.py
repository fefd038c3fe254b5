"""Builds the parts that convert and live share, from their settings."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from conversion.characters.fetching import FetchedCharacters, LoadedLimits
from conversion.characters.lending import BuiltInCharacters
from conversion.characters.loading import CharacterLoader
from conversion.conversion import Conversion
from conversion.origin.credentials import ResultCredentials
from conversion.origin.notice import open_notice
from conversion.origin.verifying import Verifier
from conversion.origin.watermarking import watermark_keys
from conversion.rehearsal import connect
from conversion.serving.serving import Work, serve_until_signal
from conversion.stopwatch import process_age_ms
from shared.characters.bucket import CharacterBucket
from shared.google import clients
from shared.process.settings import SettingsError
from speech.results.credentials.signing import CredentialSigner, raw_signature, sign_with

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from hypercorn.typing import ASGIFramework

    from conversion.characters.lending import Characters
    from conversion.origin.credentials import CredentialSettings
    from conversion.serving.app import ConvertingApp
    from conversion.serving.processes import Supervision
    from conversion.settings import ConverterSettings
    from conversion.starting import Tools
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
class Services:
    """Everything that an application needs beside its settings.

    Attributes:
        stores: where it reads and writes.
        tools: what it converts with.
    """

    stores: Stores
    tools: Tools


def lend_characters(
    config: ConverterSettings, tools: Tools, open_bucket: Callable[[], Bucket] | None
) -> Characters:
    """Build the character source: the image's characters, and the bucket's if there is one."""
    built_in = BuiltInCharacters(tools.characters)
    if open_bucket is None:
        return built_in
    bucket = CharacterBucket(open_bucket)
    loader = CharacterLoader(bucket, tools.session, config.max_bundle_bytes, marker=tools.marker)
    limits = LoadedLimits(config.characters_memory_bytes, config.characters_refresh_seconds)
    return FetchedCharacters(built_in, bucket, loader, limits)


def build_conversion(config: ConverterSettings, stores: Stores, tools: Tools) -> Conversion:
    """Build the conversion of one instance."""
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
    config: ConverterSettings, tools: Tools, turn: Callable[[], AbstractAsyncContextManager[object]]
) -> Verifier:
    """Build the verifier of files that may have been made here.

    Args:
        config: the settings.
        tools: decode the file.
        turn: takes a place among the conversions of this process.
    """
    keys = watermark_keys(config.watermark_keys)
    return Verifier(tools.decoder, keys, config.c2pa_own_certificates, turn)


def open_credentials(config: CredentialSettings) -> ResultCredentials | None:
    """Open the signer of results, and load its library beside the start; None without certificates.

    Raises:
        SettingsError: the key is wrong.
    """
    if not config.c2pa_certificates:
        return None
    try:
        sign = _open_key(config)
    except ValueError as error:
        raise SettingsError(f"C2PA_KEY is wrong: {error}") from None
    signer = CredentialSigner(config.c2pa_certificates, sign, config.c2pa_time_stamp_url)
    credentials = ResultCredentials(signer, config.c2pa_seconds)
    credentials.load()
    return credentials


def _open_key(config: CredentialSettings) -> Callable[[bytes], bytes]:
    if config.c2pa_key is not None:
        return sign_with(config.c2pa_key.get_secret_value().encode())
    kms_key = clients.open_kms_key(str(config.c2pa_kms_key), config.c2pa_seconds)
    return lambda data: raw_signature(kms_key.sign(data))


@asynccontextmanager
async def opened_services(
    config: ConverterSettings, tools: Awaitable[Tools]
) -> AsyncIterator[Services]:
    """Open the clients and connect them while the tools start.

    Args:
        config: the settings.
        tools: what the instance converts with, once they are ready; see `starting_tools`.
    """
    stores = open_stores(config)
    connecting = asyncio.create_task(connect(stores.voices, stores.uploads, stores.results))
    try:
        yield Services(stores, await tools)
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
    """Serve until SIGTERM or SIGINT, then end what is under way or hand it back.

    Args:
        app: the application.
        config: the settings.
        stores: where the instance reads and writes; the voices' documents are closed at the end.
        supervision: by Gunicorn, if there are several processes.
        finishes_when_interrupted: whether SIGINT does what SIGTERM does.
    """
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


def open_stores(config: ConverterSettings) -> Stores:
    """Open the clients; must be called in the event loop that uses them."""
    signer = clients.open_signer(config)
    return Stores(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        results=clients.open_bucket(config, config.results_bucket, signer),
        open_characters=clients.characters_opener(config),
    )


def log_start() -> None:
    """Log that this instance serves, and how long its start took; collect garbage from now on."""
    # A full collection stops everything under way. The objects made so far live as long as the
    # process, so the collector need not look at them.
    gc.freeze()
    gc.enable()
    extra: dict[str, Any] = {"event": "instance_started"}
    if (ready_ms := process_age_ms()) is not None:
        extra["ready_ms"] = ready_ms
    _LOG.info("serving", extra=extra)
