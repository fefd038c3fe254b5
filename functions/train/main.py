"""train: the job that makes characters of visitors' recordings.

The way of an own character: the api or the sweep starts the job -> **train** -> bundle, `ready`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.train import job
from functions.train.runner import Runner
from functions.train.settings import TrainSettings
from functions.train.trainer import Trainer, passed_on
from shared.errors import PassingError
from shared.google import clients
from shared.process import logs, settings
from shared.process.signals import on_signal
from speech.decoding.decoder import Decoder

if TYPE_CHECKING:
    from shared.own_characters.store import OwnCharacterStore
    from shared.ports.bucket import Bucket

_LOG = logging.getLogger(__name__)

_ENDED_BY_SIGNAL = 143
"""As a shell says it of a program that SIGTERM has ended."""


@dataclass(frozen=True, slots=True)
class Services:
    """What train speaks to.

    Attributes:
        store: the characters' documents.
        recordings: the bucket of the owners' recordings.
        characters: the bucket of the bundles.
        decoder: has been started.
    """

    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    decoder: Decoder


def build(config: TrainSettings, services: Services) -> Runner:
    """Build what trains, from its settings and the services that it speaks to."""
    command = (str(config.training_python), "-m", "training")
    return Runner(
        services.store,
        services.recordings,
        services.characters,
        services.decoder,
        Trainer(command, config.training_folder, config.training_seconds, passed_on(os.environ)),
        config.trainings_at_once,
    )


async def run(config: TrainSettings) -> int:
    """Run one job; return its exit status: after anything but 0, Cloud Run starts it once more."""
    # At SIGTERM the character under way is handed back, to be gone on with from its checkpoint.
    this = asyncio.current_task()
    assert this is not None  # noqa: S101 - asyncio runs it
    on_signal(signal.SIGTERM, this.cancel)
    open_characters = clients.characters_opener(config)
    assert open_characters is not None  # noqa: S101 - the settings have checked it
    store = clients.open_own_characters(config)
    is_restarted = config.cloud_run_task_attempt > 0
    try:
        async with Decoder(max_processes=1) as decoder:
            recordings = clients.open_own_recordings(config, config.own_recordings_bucket)
            services = Services(store, recordings, open_characters(), decoder)
            trained = await job.train_all(
                build(config, services),
                begin_seconds=config.job_seconds - config.training_seconds,
                patience_seconds=job.RESTARTED_PATIENCE_SECONDS if is_restarted else 0,
            )
    except asyncio.CancelledError:
        _LOG.info("stopped", extra={"event": "stopped"})
        return _ENDED_BY_SIGNAL
    except PassingError as error:
        _LOG.warning("training left: %s", error, extra={"event": "unavailable"})
        return 1
    finally:
        await store.aclose()
    _LOG.info("job done", extra={"event": "training_job_done", "characters": trained})
    return 0


def main() -> None:
    """Run the job; exit with status 2 and a message if settings are wrong."""
    try:
        config = settings.load(TrainSettings)
    except settings.SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)
    logs.configure(config.project_id, config.log_level, config.pseudonym_key)
    sys.exit(asyncio.run(run(config)))
