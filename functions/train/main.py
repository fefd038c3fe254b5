"""train: the job that makes characters of visitors' recordings.

The path of an own character: the api or the sweep starts the job -> **train** -> bundle, `ready`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.train import runner
from functions.train.runner import TrainingRunner
from functions.train.settings import TrainSettings
from functions.train.trainer import Trainer, environment_of_trainer
from shared.google import clients
from shared.runtime import logs, settings
from shared.runtime.process import on_signal
from shared.speech.decoding.decoder import Decoder
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from shared.characters.own.store import OwnCharacterStore
    from shared.ports import Bucket

_LOG = logging.getLogger(__name__)

_ENDED_BY_SIGNAL = 143  # the exit status that a shell reports for a program ended by SIGTERM


@dataclass(frozen=True, slots=True)
class TrainServices:
    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket
    decoder: Decoder


def build(config: TrainSettings, services: TrainServices) -> TrainingRunner:
    command = (str(config.training_python), "-m", "tools.training")
    return TrainingRunner(
        services.store,
        services.recordings,
        services.characters,
        services.decoder,
        Trainer(
            command,
            config.training_folder,
            config.training_seconds,
            environment_of_trainer(os.environ),
        ),
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
            recordings = clients.open_single_bucket(config, config.own_recordings_bucket)
            services = TrainServices(store, recordings, open_characters(), decoder)
            trained = await runner.train_waiting_characters(
                build(config, services),
                begin_seconds=config.job_seconds - config.training_seconds,
                patience_seconds=runner.RESTARTED_PATIENCE_SECONDS if is_restarted else 0,
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
    try:
        config = settings.load(TrainSettings)
    except settings.SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)
    logs.configure(config.project_id, config.log_level, config.pseudonym_key)
    sys.exit(asyncio.run(run(config)))
