"""Making the Google clients that two or more deployables use, each from its own settings.

Nothing is made at import; `main.py` calls these once. The libraries are imported inside, so that a
deployable pays at its cold start only for the clients it makes.
"""
# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.settings import PushVerification

if TYPE_CHECKING:
    from shared.google.cloud_storage import Bucket, Signer
    from shared.google.tokens import TokenVerifier
    from shared.ports.store import VoiceStore
    from shared.ports.topic import Publisher
    from shared.settings import CommonSettings, PushSettings, SigningSettings


def open_voices(settings: CommonSettings, *, targets_per_stream: int | None = None) -> VoiceStore:
    """Open the voices' documents in Firestore; with `targets_per_stream`, also to watch them."""
    from google.cloud.firestore_v1 import AsyncClient

    from shared.google.firestore_store import FirestoreVoices

    client = AsyncClient(project=settings.project_id)
    if targets_per_stream is None:
        return FirestoreVoices(client)
    from shared.google.firestore_listener import DocumentListener

    return FirestoreVoices(client, DocumentListener(client, targets_per_stream=targets_per_stream))


def open_bucket(settings: CommonSettings, name: str, signer: Signer | None = None) -> Bucket:
    """Open a bucket; with a signer, also to make addresses."""
    from google.cloud.storage import Client

    from shared.google.cloud_storage import Bucket

    return Bucket(Client(project=settings.project_id), name, signer)


def open_signer(settings: SigningSettings) -> Signer:
    """Return what signs addresses: the local key, or IAM in the name of the service account."""
    from shared.google.cloud_storage import Signer

    if settings.signing_key_file is not None:
        from google.oauth2.service_account import Credentials

        return Signer(Credentials.from_service_account_file(settings.signing_key_file))
    import google.auth

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/iam"])
    return Signer(credentials, settings.signing_service_account)


def open_publisher(settings: CommonSettings, topic: str) -> Publisher:
    """Return what publishes to a topic, given its short id."""
    from google.cloud.pubsub_v1 import PublisherClient
    from google.cloud.pubsub_v1.types import BatchSettings

    from shared.google.pubsub import PubSubPublisher

    # A visitor waits for every single message: none is held back to fill a batch.
    client = PublisherClient(BatchSettings(max_latency=0))
    return PubSubPublisher(client, f"projects/{settings.project_id}/topics/{topic}")


def open_push_verifier(settings: PushSettings) -> TokenVerifier:
    """Return what decides whether a push comes from our own subscription."""
    from shared.google.tokens import (
        GOOGLE_CERTIFICATES,
        CertificateCache,
        GoogleTokenVerifier,
        NoTokenNeeded,
        fetch_certificates,
    )

    if settings.push_verification is PushVerification.OFF:
        return NoTokenNeeded()
    return GoogleTokenVerifier(
        CertificateCache(partial(fetch_certificates, GOOGLE_CERTIFICATES)),
        audience=settings.push_audience,
        email=str(settings.push_service_account),
        signature_may_be_removed=settings.push_verification is PushVerification.PLATFORM,
    )
