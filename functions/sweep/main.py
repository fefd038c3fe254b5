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

    from functions.sweep.own_characters import OwnCharacterSweep
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
        own_characters: looks after visitors' own characters; None where they cannot make any.
    """

    voices: VoiceStore
    uploads: Bucket
    conversions: Publisher
    own_characters: OwnCharacterSweep | None = None


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
    verifier = clients.open_push_verifier(config)
    return create_app(sweeper, verifier, services.own_characters)


def open_services(config: SweepSettings) -> Services:
    """Open the clients."""
    return Services(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        conversions=clients.open_publisher(config, config.conversions_topic),
        own_characters=open_own_characters(config),
    )


def open_own_characters(config: SweepSettings) -> OwnCharacterSweep | None:
    """Open the sweep of visitors' own characters; None where they cannot make any."""
    open_characters = clients.characters_opener(config)
    recordings, trainer = config.own_recordings_bucket, config.trainer_url
    if open_characters is None or recordings is None or trainer is None:
        return None
    # Imported here: the other starts do without.
    from functions.sweep.own_characters import OwnCharacterSweep  # noqa: PLC0415
    from shared.pipeline.own_recordings import Cleaner  # noqa: PLC0415

    store = clients.open_own_characters(config)
    cleaner = Cleaner(store, clients.open_own_recordings(config, recordings), open_characters())
    return OwnCharacterSweep(store, cleaner, clients.open_trainer(config, trainer))


sweep = cloud_function("sweep", SweepSettings, open_services, build)
