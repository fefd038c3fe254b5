"""api: the HTTP API that a visitor's browser speaks to.

The way of a voice, its first and last part: **api** creates the document, signs the upload address
and warms the conversion up; clients that cannot listen to Firestore wait here for the result.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from functions.api import fastapi_import  # noqa: F401 - before FastAPI is imported
from functions.api.app import create_app, serve_page
from functions.api.catalogue import Catalogue
from functions.api.dependencies import Dependencies, LiveOffer
from functions.api.intake import VoiceIntake
from functions.api.limits import RequestLimits, VoiceOutcomes
from functions.api.settings import ApiSettings
from functions.api.uploads import FORM_OVERHEAD_BYTES, UploadMemory
from functions.api.verifications import Verifications
from functions.api.visitors import AppCheck, ClientNames, SignIn
from functions.api.warmup import GoogleIdentity, WarmUp, no_identity
from shared.characters.bucket import CharacterBucket
from shared.characters.manifest import ManifestError, read_manifests
from shared.google import clients
from shared.google.tokens import (
    APP_CHECK_KEYS,
    FIREBASE_CERTIFICATES,
    AppCheckTokenVerifier,
    CertificateCache,
    FirebaseTokenVerifier,
    fetch_certificates,
    keys_of_set,
    read_own_key,
)
from shared.runtime.function import cloud_function
from shared.runtime.settings import Environment, SettingsError, Switch
from shared.runtime.traces import open_traces
from shared.speech.text.languages import JAPANESE, LANGUAGES
from shared.voices.tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from fastapi import FastAPI

    from functions.api.own_characters import (
        OwnCharacterAccess,
        OwnCharacterService,
        OwnCharacterServices,
    )
    from shared.ports import Bucket, Publisher
    from shared.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class ApiServices:
    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    conversions: Callable[[], Publisher]
    open_characters: Callable[[], Bucket] | None = None
    own_characters: OwnCharacterServices | None = None
    trust: SSLContext | None = None  # the certificates accepted from the converter


def build(config: ApiSettings, services: ApiServices) -> FastAPI:
    own_characters, access = open_own_characters(config, services.own_characters)
    catalogue = open_catalogue(config, services.open_characters, access)
    limits = RequestLimits(
        per_minute=config.rate_limit_per_minute,
        waiting=config.waiting_per_client,
        trusted_proxies=config.trusted_proxies,
    )
    upload_memory = UploadMemory(config.max_upload_bytes + FORM_OVERHEAD_BYTES)
    upload_lifetime = timedelta(seconds=config.upload_url_seconds)
    is_local = config.environment is Environment.LOCAL
    identity = no_identity if is_local else GoogleIdentity(config.convert_url)
    verify = services.trust or True
    live = None
    if config.live_url is not None:
        tickets = Tickets([key.get_secret_value() for key in config.live_ticket_keys])
        # A ticket permits one recording, as an upload address does.
        live = LiveOffer(config.live_url, tickets, upload_lifetime)
    dependencies = Dependencies(
        voices=services.voices,
        intake=VoiceIntake(
            voices=services.voices,
            uploads=services.uploads,
            results=services.results,
            conversions=services.conversions,
            catalogue=catalogue,
            max_bytes=config.max_upload_bytes,
            max_characters=config.max_text_characters,
            upload_lifetime=upload_lifetime,
        ),
        warm_up=WarmUp(
            httpx.AsyncClient(verify=verify),
            f"{config.convert_url}/warmup",
            identity,
            most=config.warm_ups_at_once,
        ),
        sign_in=open_sign_in(config),
        app_check=open_app_check(config),
        limits=limits,
        outcomes=VoiceOutcomes(
            services.voices,
            limits,
            # A quarter of what a client may create in a minute, because a voice takes some 15 s.
            in_progress=math.ceil(config.rate_limit_per_minute / 4),
            # An upload that began in time may take as long again, as in `upload_has_expired`.
            seconds=2 * config.upload_url_seconds,
        ),
        client_names=ClientNames(config.pseudonym_key),
        upload_memory=upload_memory,
        verifications=Verifications(
            httpx.AsyncClient(verify=verify),
            f"{config.convert_url}/verifications",
            identity,
            upload_memory,
        ),
        catalogue=catalogue,
        wait_seconds=config.wait_seconds,
        seconds=(config.min_seconds, config.max_seconds),
        max_upload_bytes=config.max_upload_bytes,
        max_text_characters=config.max_text_characters,
        languages=tuple(LANGUAGES) if config.kokoro is Switch.ON else (JAPANESE,),
        live=live,
        own_characters=own_characters,
        traces=open_traces(config, "api"),
    )
    app = create_app(dependencies, config.allowed_origins, config.allowed_hosts)
    if config.web_root is not None:
        serve_page(app, config.web_root, config.page_config or {})
    return app


def open_own_characters(
    config: ApiSettings, services: OwnCharacterServices | None
) -> tuple[OwnCharacterService, OwnCharacterAccess] | tuple[None, None]:
    if services is None or not config.own_characters_per_day:
        return None, None
    # Imported here: the other starts do without.
    from functions.api.own_characters import (  # noqa: PLC0415
        OwnCharacterAccess,
        OwnCharacterService,
    )
    from shared.characters.own.store import DayLimits  # noqa: PLC0415

    service = OwnCharacterService(
        services,
        limits=DayLimits(config.own_characters_per_day, config.own_characters_per_owner),
        allows_public=config.own_characters_public,
        upload_lifetime=timedelta(seconds=config.upload_url_seconds),
        now=lambda: datetime.now(UTC),
    )
    return service, OwnCharacterAccess(services.store, config.own_characters_public)


def open_catalogue(
    config: ApiSettings,
    open_bucket: Callable[[], Bucket] | None,
    own: OwnCharacterAccess | None,
) -> Catalogue:
    built_in = read_manifests(config.characters_dir)
    bucket = None if open_bucket is None else CharacterBucket(open_bucket)
    default = config.default_character
    if default is not None and default not in built_in and bucket is None:
        raise SettingsError(
            f"DEFAULT_CHARACTER: expected one of {', '.join(built_in)}, found {default!r}."
        )
    return Catalogue(built_in, bucket, config.characters_refresh_seconds, default, own=own)


def check_characters(config: ApiSettings) -> None:
    try:
        read_manifests(config.characters_dir)
    except ManifestError as error:
        raise SettingsError(f"CHARACTERS_DIR={config.characters_dir} is wrong: {error}") from None


def open_sign_in(config: ApiSettings) -> SignIn:
    if config.firebase_auth is Switch.OFF:
        return SignIn(None)
    keys = _open_keys(config, FIREBASE_CERTIFICATES)
    return SignIn(FirebaseTokenVerifier(keys, project_id=config.project_id))


def open_app_check(config: ApiSettings) -> AppCheck:
    if config.app_check is Switch.OFF:
        return AppCheck(None)
    keys = _open_keys(config, APP_CHECK_KEYS, keys_of_set)
    return AppCheck(
        AppCheckTokenVerifier(keys, project_id=config.project_id, app_id=config.app_check_app)
    )


def _open_keys(config: ApiSettings, *source: Any) -> CertificateCache:
    if config.signing_key_file is not None:
        return CertificateCache(partial(read_own_key, Path(config.signing_key_file)))
    return CertificateCache(partial(fetch_certificates, *source))


def open_services(config: ApiSettings) -> ApiServices:
    with ThreadPoolExecutor(1) as beside:
        # Reading some hundred certificates lets the imports of the clients go on meanwhile.
        trust = beside.submit(httpx.create_ssl_context)
        return ApiServices(
            voices=clients.open_voices(config, targets_per_stream=config.listen_targets_per_stream),
            uploads=clients.open_bucket(config, config.uploads_bucket, clients.open_signer(config)),
            results=clients.open_bucket(config, config.results_bucket),
            conversions=cache(partial(clients.open_publisher, config, config.conversions_topic)),
            open_characters=clients.characters_opener(config),
            own_characters=open_own_character_services(config),
            trust=trust.result(),
        )


def open_own_character_services(config: ApiSettings) -> OwnCharacterServices | None:
    open_characters = clients.characters_opener(config)
    recordings, trainer = config.own_recordings_bucket, config.trainer_url
    if open_characters is None or recordings is None or trainer is None:
        return None
    if not config.own_characters_per_day:
        return None
    # Imported here: the other starts do without.
    from functions.api.own_characters import OwnCharacterServices, TrainerCall  # noqa: PLC0415

    return OwnCharacterServices(
        store=clients.open_own_characters(config),
        recordings=clients.open_single_bucket(config, recordings, clients.open_signer(config)),
        open_characters=open_characters,
        wake_trainer=TrainerCall(clients.open_trainer(config, trainer)),
    )


api = cloud_function("api", ApiSettings, open_services, build, check_characters)
