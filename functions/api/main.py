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
from typing import TYPE_CHECKING

import httpx

from functions.api import fastapi_import  # noqa: F401 - before FastAPI is imported
from functions.api.app import create_app, serve_page
from functions.api.catalogue import Catalogue
from functions.api.intake import TextIntake, VoiceIntake
from functions.api.limits import RequestLimits, VoiceOutcomes
from functions.api.routes import Dependencies, LiveOffer
from functions.api.settings import ApiSettings, AppCheckEnforcement, FirebaseAuth
from functions.api.uploads import FORM_OVERHEAD_BYTES, UploadMemory
from functions.api.verifications import Verifications
from functions.api.visitors import AppCheck, ClientNames, SignIn
from functions.api.warmup import GoogleIdentity, NoIdentity, WarmUp
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
from shared.runtime.settings import Environment, SettingsError
from shared.runtime.traces import open_traces
from shared.voices.tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from fastapi import FastAPI

    from functions.api.catalogue import OwnCharacterNames
    from functions.api.own_characters import (
        OwnCharacterAccess,
        OwnCharacterService,
        OwnCharacterServices,
    )
    from functions.api.warmup import Identity
    from shared.ports import Bucket, Publisher
    from shared.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class ApiServices:
    """What the api speaks to.

    Attributes:
        open_characters: opens the bucket of the characters; None if there is none.
        own_characters: what the making of visitors' own characters speaks to; None without it.
        trust: says which certificates of the converter are good; None for httpx's own.
    """

    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    conversions: Callable[[], Publisher]
    open_characters: Callable[[], Bucket] | None = None
    own_characters: OwnCharacterServices | None = None
    trust: SSLContext | None = None


def build(config: ApiSettings, services: ApiServices) -> FastAPI:
    """Build the application from its settings and the services that it speaks to.

    Raises:
        ManifestError: a character's manifest is wrong, or there is no character.
    """
    catalogue = open_catalogue(
        config, services.open_characters, open_access(config, services.own_characters)
    )
    intake = VoiceIntake(
        voices=services.voices,
        uploads=services.uploads,
        results=services.results,
        catalogue=catalogue,
        max_bytes=config.max_upload_bytes,
        upload_lifetime=timedelta(seconds=config.upload_url_seconds),
    )
    texts = TextIntake(
        voices=services.voices,
        uploads=services.uploads,
        conversions=services.conversions,
        catalogue=catalogue,
        max_characters=config.max_text_characters,
    )
    limits = RequestLimits(
        per_minute=config.rate_limit_per_minute,
        waiting=config.waiting_per_client,
        trusted_proxies=config.trusted_proxies,
    )
    upload_memory = UploadMemory(config.max_upload_bytes + FORM_OVERHEAD_BYTES)
    dependencies = Dependencies(
        voices=services.voices,
        intake=intake,
        texts=texts,
        warm_up=open_warm_up(config, services.trust),
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
        verifications=open_verifications(config, services.trust, upload_memory),
        catalogue=catalogue,
        wait_seconds=config.wait_seconds,
        seconds=(config.min_seconds, config.max_seconds),
        max_upload_bytes=config.max_upload_bytes,
        live=open_live_offer(config),
        max_text_characters=config.max_text_characters,
        traces=open_traces(config, "api"),
        making=open_own_character_service(config, services.own_characters),
    )
    app = create_app(dependencies, config.allowed_origins, config.allowed_hosts)
    if config.web_root is not None:
        serve_page(app, config.web_root, config.page_config or {})
    return app


def open_own_character_service(
    config: ApiSettings, services: OwnCharacterServices | None
) -> OwnCharacterService | None:
    """Build the making of visitors' own characters; None where it is not allowed."""
    if services is None or not config.own_characters_per_day:
        return None
    # Imported here: the other starts do without.
    from functions.api.own_characters import OwnCharacterService  # noqa: PLC0415
    from shared.characters.own.store import DayLimits  # noqa: PLC0415

    return OwnCharacterService(
        services,
        limits=DayLimits(config.own_characters_per_day, config.own_characters_per_owner),
        allows_public=config.own_characters_public,
        upload_lifetime=timedelta(seconds=config.upload_url_seconds),
        now=lambda: datetime.now(UTC),
    )


def open_access(
    config: ApiSettings, services: OwnCharacterServices | None
) -> OwnCharacterAccess | None:
    """Build the rules of visitors' own characters; None where there are none."""
    if services is None or not config.own_characters_per_day:
        return None
    from functions.api.own_characters import OwnCharacterAccess  # noqa: PLC0415 - as above

    return OwnCharacterAccess(services.store, config.own_characters_public)


def open_catalogue(
    config: ApiSettings,
    open_bucket: Callable[[], Bucket] | None = None,
    own: OwnCharacterNames | None = None,
) -> Catalogue:
    """Build the catalogue.

    Raises:
        ManifestError: the manifest of a built-in character is wrong, or there is none.
        SettingsError: there cannot be the default character.
    """
    built_in = read_manifests(config.characters_dir)
    bucket = None if open_bucket is None else CharacterBucket(open_bucket)
    default = config.default_character
    if default is not None and default not in built_in and bucket is None:
        raise SettingsError(
            f"DEFAULT_CHARACTER: expected one of {', '.join(built_in)}, found {default!r}."
        )
    return Catalogue(built_in, bucket, config.characters_refresh_seconds, default, own=own)


def check_characters(config: ApiSettings) -> None:
    """Refuse a folder of characters that cannot be listed.

    Raises:
        SettingsError: the manifest of a built-in character is wrong, or there is none.
    """
    try:
        read_manifests(config.characters_dir)
    except ManifestError as error:
        raise SettingsError(f"CHARACTERS_DIR={config.characters_dir} is wrong: {error}") from None


def open_identity(config: ApiSettings) -> Identity:
    """Build the source of tokens for requests to the conversion container."""
    is_local = config.environment is Environment.LOCAL
    return NoIdentity() if is_local else GoogleIdentity(config.convert_url)


def open_warm_up(config: ApiSettings, trust: SSLContext | None = None) -> WarmUp:
    """Build the warm-up of the conversion container."""
    return WarmUp(
        httpx.AsyncClient(verify=trust or True),
        f"{config.convert_url}/warmup",
        open_identity(config),
        most=config.warm_ups_at_once,
    )


def open_verifications(
    config: ApiSettings, trust: SSLContext | None, memory: UploadMemory
) -> Verifications:
    """Build the verifications, for which a converter is asked."""
    url = f"{config.convert_url}/verifications"
    client = httpx.AsyncClient(verify=trust or True)
    return Verifications(client, url, open_identity(config), memory)


def open_sign_in(config: ApiSettings) -> SignIn:
    """Build the verifier of signed-in visitors."""
    if config.firebase_auth is FirebaseAuth.OFF:
        return SignIn(None)
    if config.signing_key_file is not None:
        certificates = CertificateCache(partial(read_own_key, Path(config.signing_key_file)))
    else:
        certificates = CertificateCache(partial(fetch_certificates, FIREBASE_CERTIFICATES))
    return SignIn(FirebaseTokenVerifier(certificates, project_id=config.project_id))


def open_app_check(config: ApiSettings) -> AppCheck:
    """Build the verifier of App Check tokens."""
    if config.app_check is AppCheckEnforcement.OFF:
        return AppCheck(None)
    if config.signing_key_file is not None:
        keys = CertificateCache(partial(read_own_key, Path(config.signing_key_file)))
    else:
        keys = CertificateCache(partial(fetch_certificates, APP_CHECK_KEYS, keys_of_set))
    return AppCheck(AppCheckTokenVerifier(keys, project_id=config.project_id))


def open_live_offer(config: ApiSettings) -> LiveOffer | None:
    """Build the source of `live`'s tickets; None where there is no `live`."""
    if config.live_url is None:
        return None
    tickets = Tickets([key.get_secret_value() for key in config.live_ticket_keys])
    # Both are the permission to bring one recording.
    return LiveOffer(config.live_url, tickets, timedelta(seconds=config.upload_url_seconds))


def open_services(config: ApiSettings) -> ApiServices:
    """Open the clients."""
    with ThreadPoolExecutor(1) as beside:
        # Reading some hundred certificates lets the imports of the clients go on meanwhile.
        trust = beside.submit(httpx.create_ssl_context)
        return ApiServices(
            voices=clients.open_voices(config, targets_per_stream=config.listen_targets_per_stream),
            uploads=clients.open_bucket(config, config.uploads_bucket, clients.open_signer(config)),
            results=clients.open_bucket(config, config.results_bucket),
            conversions=cache(partial(clients.open_publisher, config, config.conversions_topic)),
            open_characters=clients.characters_opener(config),
            own_characters=open_own_characters(config),
            trust=trust.result(),
        )


def open_own_characters(config: ApiSettings) -> OwnCharacterServices | None:
    """Open what the making of visitors' own characters speaks to; None where it is not allowed."""
    open_characters = clients.characters_opener(config)
    recordings, trainer = config.own_recordings_bucket, config.trainer_url
    if not config.own_characters_per_day:
        return None
    if open_characters is None or recordings is None or trainer is None:
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
