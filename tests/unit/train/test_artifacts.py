from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from functions.train import artifacts
from functions.train.artifacts import Checkpoints
from shared.characters.own.own_character import OwnCharacterStatus
from shared.characters.own.recordings import (
    Kind,
    progress_prefix,
    recordings_prefix,
)
from shared.voices.objects import StorageUnavailableError
from tests.support.buckets import MemoryBucket

if TYPE_CHECKING:
    from pathlib import Path

    from shared.characters.own.own_character import OwnCharacter
    from tests.unit.train.stage import RunnerStage

STAGES = ("selection", "lessons", "others", "learner")
OLD, NEW = "a" * 64, "b" * 64


def kept_by(stage: RunnerStage, character: OwnCharacter) -> dict[str, int]:
    """Return which attempt has made each file that is kept."""
    prefix = progress_prefix(character.character_id)
    names = [each.removeprefix(prefix) for each in stage.recordings.objects if prefix in each]
    orders = [name.split("/")[1].split("-", 2) for name in names]
    return {file.removesuffix(".pickle"): int(attempt) for attempt, _, file in orders}


@pytest.fixture(autouse=True)
def _save_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "SAVE_SECONDS", 0.02)


@pytest.mark.parametrize("killed_in", [STAGES[0], STAGES[-1]])
async def test_a_training_that_is_killed_in_any_stage_goes_on_from_the_one_before(
    stage: RunnerStage, killed_in: str
) -> None:
    character, done = await stage.queued(), STAGES[: STAGES.index(killed_in)]
    await stage.runner(f"die in {killed_in}").train_next()
    assert (await stage.stored(character)).tries == 1

    await stage.runner("die at the end").train_next()
    assert kept_by(stage, character) == {name: 1 if name in done else 2 for name in STAGES}
    await stage.asked_again(character)

    await stage.runner().train_next()

    assert (await stage.stored(character)).status is OwnCharacterStatus.READY
    assert not kept_by(stage, character)


async def test_what_was_kept_goes_with_the_recordings(stage: RunnerStage) -> None:
    character = await stage.queued()
    await stage.runner("die at the end").train_next()
    assert kept_by(stage, character)
    await stage.store.delete(character.character_id)

    await stage.runner().cleaner.clean()

    assert not stage.recordings.objects


async def test_nothing_is_kept_of_recordings_that_were_refused(stage: RunnerStage) -> None:
    character = await stage.queued()
    await stage.runner("refuse").train_next()
    assert not kept_by(stage, character)
    assert await stage.recordings.list(recordings_prefix(character.character_id, Kind.SPEECH))


async def test_a_bucket_that_does_not_take_checkpoints_does_not_end_the_training(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(*_arguments: object, **_options: object) -> None:
        raise StorageUnavailableError("away")

    character = await stage.queued()
    monkeypatch.setattr(stage.recordings, "write", write)
    await stage.runner().train_next()
    assert (await stage.stored(character)).status is OwnCharacterStatus.READY


@dataclass
class Attempts:
    """Attempts to train one character, which share nothing but the bucket."""

    folder: Path
    bucket: MemoryBucket = field(default_factory=lambda: MemoryBucket("recordings"))

    def begin(self, number: int) -> Checkpoints:
        return Checkpoints(self.bucket, "own-x", number, self.folder / str(number))

    def write(self, number: int, stamp: str, **files: str) -> None:
        place = self.folder / str(number)
        place.mkdir(exist_ok=True)
        for name, text in files.items():
            (place / f"{name}.pt").write_text(text)
        (place / "made_of.txt").write_text(stamp)

    async def restore(self, number: int) -> dict[str, str]:
        await self.begin(number).restore()
        place = self.folder / str(number)
        return {each.stem: each.read_text() for each in place.iterdir()} if place.exists() else {}


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


async def test_the_newest_version_of_each_is_restored_and_no_other_is_kept(
    attempts: Attempts,
) -> None:
    first = attempts.begin(1)
    await first.restore()
    attempts.write(1, OLD, learner="one", lessons="x")
    await first.save()
    await first.save()
    attempts.write(1, OLD, learner="longer")
    await first.save()
    assert len(attempts.bucket.objects) == 2
    assert await attempts.restore(2) == {"learner": "longer", "lessons": "x", "made_of": OLD}


async def test_an_attempt_that_was_taken_over_and_still_writes_is_not_gone_on_with(
    attempts: Attempts,
) -> None:
    old, new = attempts.begin(1), attempts.begin(2)
    attempts.write(2, OLD, learner="new")
    await new.save()
    attempts.write(1, OLD, learner="old")
    await old.save()
    assert (await attempts.restore(3))["learner"] == "new"


async def test_files_of_different_recordings_never_come_together(attempts: Attempts) -> None:
    first, second = attempts.begin(1), attempts.begin(2)
    attempts.write(1, OLD, selection="old", lessons="old")
    await first.save()
    await second.restore()
    attempts.write(2, NEW, selection="new")
    (attempts.folder / "2" / "lessons.pt").unlink()
    await second.save()
    assert await attempts.restore(3) == {"selection": "new", "made_of": NEW}


async def test_an_object_that_no_trainer_has_named_is_left_alone(attempts: Attempts) -> None:
    for name in ("../../x.pt", f"{OLD}/000001-000001-../x.pt", f"{OLD}/1-1-x.pt"):
        attempts.bucket.put(f"{progress_prefix('own-x')}{name}", b"x")
    assert await attempts.restore(1) == {}
