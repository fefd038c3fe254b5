"""api: the HTTP API that a visitor's browser speaks to.

The way of a voice, part one and last: **api** creates the document, signs the upload address and
warms the conversion up; clients that cannot listen to Firestore wait here for the end.
"""

from __future__ import annotations

import gc
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, cast

import functions_framework.aio
import httpx

from functions.api.app import create_app, serve_page
from functions.api.creation import Reception
from functions.api.limits import Limits
from functions.api.multipart import FORM_OVERHEAD_BYTES
from functions.api.routes import Services
from functions.api.settings import ApiSettings, FirebaseAuth
from functions.api.sign_in import Owners
from functions.api.upload_memory import Room
from functions.api.warmup import GoogleIdentity, NoIdentity, WarmUp
from shared import logs, settings
from shared.characters import read_manifests
from shared.google import clients
from shared.google.tokens import (
    FIREBASE_CERTIFICATES,
    CertificateCache,
    FirebaseTokenVerifier,
    fetch_certificates,
)
from shared.settings import Environment

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from shared.google.cloud_storage import Bucket
    from shared.ports.store import VoiceStore


def build(config: ApiSettings, *, voices: VoiceStore, uploads: Bucket, results: Bucket) -> FastAPI:
    """Build the application from its settings and the services it speaks to."""
    characters = read_manifests(config.characters_dir)
    reception = Reception(
        voices=voices,
        uploads=uploads,
        results=results,
        characters=characters,
        max_bytes=config.max_upload_bytes,
        upload_lifetime=timedelta(seconds=config.upload_url_seconds),
    )
    services = Services(
        voices=voices,
        reception=reception,
        warm_up=open_warm_up(config),
        owners=open_owners(config),
        limits=Limits(
            per_minute=config.rate_limit_per_minute,
            waiting=config.waiting_per_client,
            trusted_proxies=config.trusted_proxies,
        ),
        room=Room(config.max_upload_bytes + FORM_OVERHEAD_BYTES),
        characters=characters,
        wait_seconds=config.wait_seconds,
        seconds=(config.min_seconds, config.max_seconds),
        max_upload_bytes=config.max_upload_bytes,
    )
    app = create_app(services, config.allowed_origins)
    if config.web_root is not None:
        serve_page(app, config.web_root, config.page_config or {})
    return app


def open_warm_up(config: ApiSettings) -> WarmUp:
    """Return what wakes the conversion container."""
    is_local = config.environment is Environment.LOCAL
    identity = NoIdentity() if is_local else GoogleIdentity(config.convert_url)
    return WarmUp(httpx.AsyncClient(), f"{config.convert_url}/warmup", identity)


def open_owners(config: ApiSettings) -> Owners:
    """Return what tells whose a voice is."""
    if config.firebase_auth is FirebaseAuth.OFF:
        return Owners(None)
    certificates = CertificateCache(partial(fetch_certificates, FIREBASE_CERTIFICATES))
    return Owners(FirebaseTokenVerifier(certificates, project_id=config.project_id))


@cache
def application() -> FastAPI:
    """Build the application from the environment, once per process, at its first request."""
    config = settings.load(ApiSettings)
    logs.configure(config.project_id, config.log_level)
    app = build(
        config,
        voices=clients.open_voices(config, targets_per_stream=config.listen_targets_per_stream),
        uploads=clients.open_bucket(config, config.uploads_bucket, clients.open_signer(config)),
        results=clients.open_bucket(config, config.results_bucket),
    )
    # A full garbage collection stops every waiting client: what lives as long as the process does
    # need not be looked through each time.
    gc.freeze()
    return app


@functions_framework.aio.http
async def api(_request: Request) -> Response:
    """Hand every request to the application."""
    return cast("Response", application())  # a function may answer with any ASGI application
