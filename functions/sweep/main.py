"""sweep: every few minutes, looks for voices whose event or message was lost.

The way of a voice when something was lost: Cloud Scheduler -> **sweep** -> topic `conversions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from functions.sweep.app import create_app
from functions.sweep.decision import Patience
from functions.sweep.settings import SweepSettings
from functions.sweep.sweeping import Sweeper
from shared.google import clients
from shared.http.function import cloud_function

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore
    from shared.ports.topic import Publisher


@dataclass(frozen=True, slots=True)
class Services:
    """What sweep speaks to.

    Attributes:
        voices: the voices' documents.
        uploads: the bucket of the recordings.
        conversions: the topic of the conversion messages.
    """

    voices: VoiceStore
    uploads: Bucket
    conversions: Publisher


def build(config: SweepSettings, services: Services) -> Starlette:
    """Build the application from its settings and the services that it speaks to."""
    sweeper = Sweeper(
        voices=services.voices,
        uploads=services.uploads,
        conversions=services.conversions,
        patience=Patience.of(
            unchanged_seconds=config.patience_seconds,
            upload_url_seconds=config.upload_url_seconds,
        ),
        now=lambda: datetime.now(UTC),
    )
    return create_app(sweeper, clients.open_push_verifier(config))


def open_services(config: SweepSettings) -> Services:
    """Open the clients."""
    return Services(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        conversions=clients.open_publisher(config, config.conversions_topic),
    )


sweep = cloud_function("sweep", SweepSettings, open_services, build)
