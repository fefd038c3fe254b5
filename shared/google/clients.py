"""Openers of the Google clients that several deployables use.

The client libraries are imported inside them, so that a deployable imports only those that it uses,
which keeps its cold start short.
"""
# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.runtime.settings import Environment, PushVerification

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.characters.own.store import OwnCharacterStore
    from shared.google.signatures import KmsKey
    from shared.google.storage import UrlSigner
    from shared.google.trainer import TrainerStart
    from shared.ports import Bucket, Publisher, TokenVerifier
    from shared.runtime.settings import (
        CharacterSettings,
        CommonSettings,
        PushSettings,
        SigningSettings,
    )
    from shared.voices.store import VoiceStore


def open_voices(settings: CommonSettings, *, targets_per_stream: int | None = None) -> VoiceStore:
    """Open the voices' documents; without `targets_per_stream`, none can be watched."""
    from shared.google.firestore import RenewableClient
    from shared.google.voices import FirestoreVoices

    client = RenewableClient(project=settings.project_id, database=settings.firestore_database)
    if targets_per_stream is None:
        return FirestoreVoices(client)
    from shared.google.listener import DocumentListener

    return FirestoreVoices(client, DocumentListener(client, targets_per_stream=targets_per_stream))


def open_own_characters(settings: CommonSettings) -> OwnCharacterStore:
    from shared.google.firestore import RenewableClient
    from shared.google.own_characters import FirestoreOwnCharacters

    return FirestoreOwnCharacters(
        RenewableClient(project=settings.project_id, database=settings.firestore_database)
    )


def open_bucket(settings: CommonSettings, name: str, signer: UrlSigner | None = None) -> Bucket:
    """Open the bucket, or its `upload_shards`; only with a signer can it sign addresses."""
    if settings.upload_shards == 1:
        return open_single_bucket(settings, name, signer)
    from shared.google.sharded_bucket import ShardedBucket, shard_names

    names = shard_names(name, settings.upload_shards)
    return ShardedBucket([open_single_bucket(settings, each, signer) for each in names])


def open_single_bucket(
    settings: CommonSettings, name: str, signer: UrlSigner | None = None
) -> Bucket:
    """Open a bucket that is never sharded, as that of the recordings for own characters."""
    from shared.google.storage import CloudStorageBucket, open_storage_client

    return CloudStorageBucket(open_storage_client(settings.project_id), name, signer)


def characters_opener(settings: CharacterSettings) -> Callable[[], Bucket] | None:
    """Return a function that opens the characters' bucket when it is needed; None without one."""
    name = settings.characters_bucket
    return None if name is None else partial(open_single_bucket, settings, name)


def open_signer(settings: SigningSettings) -> UrlSigner:
    from shared.google.storage import Signer

    if settings.signing_hmac_access_id is not None and settings.signing_hmac_secret is not None:
        from shared.google.signatures import HmacSigner

        secret = settings.signing_hmac_secret.get_secret_value()
        return HmacSigner(settings.signing_hmac_access_id, secret)
    if settings.signing_key_file is not None:
        from google.oauth2.service_account import Credentials

        return Signer(Credentials.from_service_account_file(settings.signing_key_file))
    import google.auth

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/iam"])
    return Signer(credentials, settings.signing_service_account)


def open_publisher(settings: CommonSettings, topic: str) -> Publisher:
    """Open a topic, given its short id, to publish to it."""
    from shared.google.pubsub import PubSubPublisher, open_publisher_client

    return PubSubPublisher(open_publisher_client, f"projects/{settings.project_id}/topics/{topic}")


def open_push_verifier(settings: PushSettings) -> TokenVerifier:
    """Open the verifier that accepts pushes of our own subscription alone."""
    from shared.google.tokens import (
        GOOGLE_CERTIFICATES,
        CertificateCache,
        GoogleTokenVerifier,
        fetch_certificates,
    )
    from shared.ports import NoTokenNeeded

    if settings.push_verification is PushVerification.OFF:
        return NoTokenNeeded()
    return GoogleTokenVerifier(
        CertificateCache(partial(fetch_certificates, GOOGLE_CERTIFICATES)),
        audience=settings.push_audience,
        email=str(settings.push_service_account),
        signature_may_be_removed=settings.push_verification is PushVerification.PLATFORM,
    )


def open_trainer(settings: CommonSettings, url: str) -> TrainerStart:
    import google.auth
    import requests
    from google.auth.transport.requests import AuthorizedSession

    from shared.google.trainer import TrainerStart

    if settings.environment is Environment.LOCAL:
        return TrainerStart(requests.Session(), url)
    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return TrainerStart(AuthorizedSession(credentials), url)


def open_kms_key(name: str, seconds: float) -> KmsKey:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    from shared.google.signatures import KmsKey

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloudkms"])
    return KmsKey(name, AuthorizedSession(credentials), seconds)
