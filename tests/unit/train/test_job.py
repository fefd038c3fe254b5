from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.train import job, runner
from functions.train.job import train_all
from functions.train.settings import TrainSettings
from shared.own_characters.own_character import Status
from shared.process.settings import SettingsError, load
from shared.voices.objects import StorageUnavailableError
from tests.unit.train.stage import ROOT

if TYPE_CHECKING:
    from tests.unit.train.stage import Stage

NEEDED = {
    "project_id": "p",
    "log_key": "k" * 64,
    "uploads_bucket": "uploads",
    "characters_bucket": "characters",
    "own_recordings_bucket": "recordings",
}


async def test_a_job_trains_what_waits_deletes_the_recordings_and_ends(stage: Stage) -> None:
    characters = [await stage.queued(), await stage.queued()]
    assert await train_all(stage.runner(), begin_seconds=600, patience_seconds=0) == 2
    assert {(await stage.stored(each)).status for each in characters} == {Status.READY}
    assert not stage.recordings.objects


async def test_a_job_begins_no_training_that_it_could_not_end(stage: Stage) -> None:
    character, times = await stage.queued(), iter((0.0, 1801.0))
    clock = lambda: next(times)  # noqa: E731
    trained = await train_all(stage.runner(), begin_seconds=1800, patience_seconds=0, now=clock)
    assert trained == 0
    assert (await stage.stored(character)).status is Status.QUEUED


async def test_a_job_that_is_started_again_waits_for_the_lease_of_the_one_that_was_killed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "LOOK_AGAIN_SECONDS", 0.01)
    character = await stage.leased(await stage.queued())
    assert await train_all(stage.runner(), begin_seconds=600, patience_seconds=0) == 0
    again = asyncio.create_task(train_all(stage.runner(), begin_seconds=600, patience_seconds=60))
    await asyncio.sleep(0.1)
    assert not again.done()
    stage.clock.pass_(timedelta(seconds=runner.LEASE_SECONDS))
    async with asyncio.timeout(30):
        while (await stage.stored(character)).status is not Status.READY:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    again.cancel()


async def test_a_bucket_out_of_reach_ends_the_job_so_that_it_is_started_again(
    stage: Stage,
) -> None:
    character = await stage.queued()
    stage.recordings.is_out_of_reach = True
    with pytest.raises(StorageUnavailableError):
        await train_all(stage.runner(), begin_seconds=600, patience_seconds=0)
    stored = await stage.stored(character)
    assert (stored.status, stored.tries) == (Status.QUEUED, 0)


@pytest.mark.parametrize("at_once", [1, 2])
async def test_no_more_characters_are_trained_at_once_than_may_be(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(runner, "STEP_BACK_SECONDS", 0.01)
    characters = [await stage.queued() for _ in range(4)]
    most, store = 0, stage.store
    runners = [stage.runner(at_once=at_once) for _ in characters]
    make = runner.Runner._make

    async def counted(self: runner.Runner, character: object) -> None:
        nonlocal most
        most = max(most, len(await store.in_training(limit=10)))
        await make(self, character)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.Runner, "_make", counted)
    async with asyncio.timeout(60):
        while await store.waiting(limit=1):
            await asyncio.gather(*(each.train_next() for each in runners))
    assert {(await stage.stored(each)).status for each in characters} == {Status.READY}
    assert {(await stage.stored(each)).tries for each in characters} == {1}
    assert most <= at_once


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"characters_bucket": None}, "CHARACTERS_BUCKET must be set"),
        ({"training_seconds": 3600}, "TRAINING_SECONDS=3600 must be less than JOB_SECONDS=3600"),
        ({"own_recordings_bucket": None}, "OWN_RECORDINGS_BUCKET"),
        ({"trainings_at_once": 0}, "TRAININGS_AT_ONCE"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    load(TrainSettings, **NEEDED)
    with pytest.raises(SettingsError, match=message):
        load(TrainSettings, **NEEDED | wrong)


def test_a_job_with_wrong_settings_does_not_start_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "functions.train"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PROJECT_ID": "p", "TRAININGS_AT_ONCE": "many"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "OWN_RECORDINGS_BUCKET is not set" in done.stderr
    assert "TRAININGS_AT_ONCE='many' is wrong" in done.stderr
    assert "Traceback" not in done.stderr
