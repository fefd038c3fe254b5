"""sweep: looks every few minutes for voices whose event or message was lost.

The path of a lost voice: Cloud Scheduler -> **sweep** -> topic `conversions`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from functions.sweep.settings import SweepSettings
from functions.sweep.sweeper import OwnCharacterSweep, Patience, Sweeper
from shared.google import clients
from shared.ports import TokenRefusedError
from shared.runtime.function import cloud_function
from shared.runtime.push import app_with_probe, authorization_of
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

    from shared.ports import Bucket, Publisher, TokenVerifier
    from shared.voices.store import VoiceStore


_LOG = logging.getLogger(__name__)


def create_app(
    sweeper: Sweeper, verifier: TokenVerifier, own_characters: OwnCharacterSweep | None = None
) -> Starlette:
    """Create the application, whose `POST /` sweeps once and answers with the counts."""

    async def sweep(request: Request) -> Response:
        try:
            await verifier.verify(authorization_of(request.headers))
            done = await sweeper.sweep()
            if own_characters is not None:
                await own_characters.sweep()
            return JSONResponse(done)
        except TokenRefusedError as error:
            _LOG.warning("sweep refused: %s", error, extra={"event": "push_refused"})
            return PlainTextResponse("this request proves no permission", 401)
        except PassingError as error:
            _LOG.warning("sweep incomplete: %s", error, extra={"event": "sweep_incomplete"})
            return PlainTextResponse("incomplete", 503)
        except Exception:  # noqa: BLE001 - the scheduler comes again, whatever the error
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            return PlainTextResponse("unexpected error", 500)

    return app_with_probe(Route("/", sweep, methods=["POST"]))


@dataclass(frozen=True, slots=True)
class SweepServices:
    voices: VoiceStore
    uploads: Bucket
    conversions: Publisher
    own_characters: OwnCharacterSweep | None = None


def build(config: SweepSettings, services: SweepServices) -> Starlette:
    sweeper = Sweeper(
        voices=services.voices,
        uploads=services.uploads,
        conversions=services.conversions,
        patience=Patience(
            unchanged=timedelta(seconds=config.patience_seconds),
            upload=timedelta(seconds=config.upload_url_seconds),
        ),
        now=lambda: datetime.now(UTC),
    )
    verifier = clients.open_push_verifier(config)
    return create_app(sweeper, verifier, services.own_characters)


def open_services(config: SweepSettings) -> SweepServices:
    return SweepServices(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        conversions=clients.open_publisher(config, config.conversions_topic),
        own_characters=open_own_characters(config),
    )


def open_own_characters(config: SweepSettings) -> OwnCharacterSweep | None:
    open_characters = clients.characters_opener(config)
    recordings, trainer = config.own_recordings_bucket, config.trainer_url
    if open_characters is None or recordings is None or trainer is None:
        return None
    # Imported here: the other starts do without.
    from shared.characters.own.recordings import OwnCharacterCleaner  # noqa: PLC0415

    store = clients.open_own_characters(config)
    cleaner = OwnCharacterCleaner(
        store, clients.open_single_bucket(config, recordings), open_characters()
    )
    return OwnCharacterSweep(store, cleaner, clients.open_trainer(config, trainer))


sweep = cloud_function("sweep", SweepSettings, open_services, build)
