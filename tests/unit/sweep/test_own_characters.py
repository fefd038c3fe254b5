from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.sweep.settings import SweepSettings
from functions.sweep.sweeper import LONG, OwnCharacterSweep
from shared.characters.own.recordings import Kind, OwnCharacterCleaner, new_recording_name
from shared.google.trainer import TrainerUnavailableError
from shared.runtime.settings import SettingsError, load
from tests.unit.train.conftest import stage  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from tests.unit.train.stage import RunnerStage

SETTINGS = {
    "project_id": "p",
    "log_key": "k" * 64,
    "uploads_bucket": "uploads",
    "conversions_topic": "conversions",
    "push_audience": "https://sweep.example",
    "push_service_account": "timer@p.example",
}


class Start:
    def __init__(self, failure: Exception | None = None) -> None:
        self.times = 0
        self.failure = failure

    async def __call__(self) -> None:
        self.times += 1
        if self.failure is not None:
            raise self.failure


def sweep_of(stage: RunnerStage, start: Start) -> OwnCharacterSweep:  # noqa: F811
    cleaner = OwnCharacterCleaner(stage.store, stage.recordings, stage.characters)
    return OwnCharacterSweep(stage.store, cleaner, start)


async def test_the_trainer_is_started_for_what_waits_and_for_nothing_else(
    stage: RunnerStage,  # noqa: F811
) -> None:
    start = Start()
    await sweep_of(stage, start).sweep()
    assert start.times == 0

    character = await stage.queued()
    await sweep_of(stage, start).sweep()
    assert start.times == 1

    await stage.leased(character)
    await sweep_of(stage, start).sweep()
    assert start.times == 1
    # The holder of the lease was killed.
    stage.clock.advance(timedelta(minutes=2))
    await sweep_of(stage, start).sweep()
    assert start.times == 2


async def test_a_character_that_waits_for_long_is_told_to_the_operator(
    stage: RunnerStage,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    await stage.queued()
    await sweep_of(stage, Start()).sweep()
    assert "waits for long" not in caplog.text
    stage.clock.advance(LONG + timedelta(seconds=1))
    await sweep_of(stage, Start()).sweep()
    assert "waits for long" in caplog.text


async def test_it_cleans_up_although_the_trainer_cannot_be_started(
    stage: RunnerStage,  # noqa: F811
) -> None:
    character = await stage.queued()
    gone = new_recording_name("own-gone", Kind.SPEECH)
    stage.recordings.put(gone, b"sound")
    with pytest.raises(TrainerUnavailableError):
        await sweep_of(stage, Start(TrainerUnavailableError("away"))).sweep()
    assert gone not in stage.recordings.objects
    assert all(name.startswith(character.character_id) for name in stage.recordings.objects)


@pytest.mark.parametrize("missing", ["trainer_url", "characters_bucket"])
def test_own_characters_need_a_trainer_and_a_place(missing: str) -> None:
    own = {
        "own_recordings_bucket": "recordings",
        "trainer_url": "https://run.example/jobs/train:run",
        "characters_bucket": "characters",
    }
    load(SweepSettings, **SETTINGS)
    load(SweepSettings, **SETTINGS | own)
    with pytest.raises(SettingsError, match="OWN_RECORDINGS_BUCKET needs TRAINER_URL"):
        load(SweepSettings, **SETTINGS | own | {missing: None})
