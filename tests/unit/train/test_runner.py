from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

import psutil
import pytest

from functions.train import runner
from functions.train.main import main
from functions.train.runner import train_waiting_characters
from functions.train.settings import TrainSettings
from shared.characters.bucket import CharacterBucket, new_character_id
from shared.characters.bundle_files import find_graph
from shared.characters.manifest import read_manifest
from shared.characters.own import own_character
from shared.characters.own.own_character import COLLECTING_DAYS, MAX_TRIES, OwnCharacterStatus
from shared.characters.own.recordings import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    MAX_TOTAL_BYTES,
    Kind,
    new_recording_name,
    recordings_prefix,
)
from shared.characters.own.store import UnknownOwnCharacterError, change_own
from shared.runtime.settings import SettingsError, load
from shared.voices.objects import StorageUnavailableError
from tests.support.buckets import StoredObject
from tests.unit.train.stage import PROGRAM, ROOT, RunnerStage, speech

if TYPE_CHECKING:
    from shared.characters.own.own_character import OwnCharacter, TrainingFailure
    from shared.voices.objects import ObjectFacts


async def failure_of(stage: RunnerStage, character: OwnCharacter) -> TrainingFailure:
    stored = await stage.stored(character)
    assert stored.status is OwnCharacterStatus.FAILED
    assert stored.error is not None
    return stored.error


def trainers() -> list[psutil.Process]:
    return [
        each for each in psutil.Process().children(recursive=True) if str(PROGRAM) in cmdline(each)
    ]


def cmdline(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


PAIR = ("converted", "original")


def card_of(stage: RunnerStage, character: OwnCharacter) -> list[str]:
    prefix = f"{character.character_id}/card/"
    found = (each for each in stage.characters.objects if each.startswith(prefix))
    return sorted(each.removeprefix(prefix) for each in found)


async def until_training(stage: RunnerStage, character: OwnCharacter) -> None:
    async with asyncio.timeout(30):
        # The document is the runner's only sign of life.
        while (await stage.stored(character)).stage != "learning the voice":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_recordings_become_a_character_in_the_bucket_and_are_deleted(
    stage: RunnerStage,
) -> None:
    stage.bundle = ROOT / "characters" / "mei"  # with graphs that characters share
    character, other = await stage.queued(), await stage.queued()

    assert await stage.runner("draw").train_next()
    await stage.runner().cleaner.clean()

    assert (await stage.stored(character)).status is OwnCharacterStatus.READY
    bucket = CharacterBucket(lambda: stage.characters)
    published = (await bucket.list(with_own={character.character_id}))[character.character_id]
    assert published.manifest.name.en == "Ada's voice"
    assert "Ada Example agreed" in published.manifest.consent
    for role in ("harmonic", "content"):
        graph = read_manifest(stage.bundle).graphs[role]
        file = find_graph(stage.bundle, graph.file, graph.sha256)
        assert await bucket.read_graph(published, role) == file.read_bytes()
    portrait = await bucket.read_portrait(published, 100_000)
    assert portrait == (stage.bundle / "portrait.svg").read_bytes()
    # Nothing of what its owner has said is in the card.
    assert card_of(stage, character) == ["card.json", *(f"other-1-{what}.wav" for what in PAIR)]
    left = {name.split("/")[0] for name in stage.recordings.objects}
    assert left == {other.character_id}
    assert (await stage.stored(other)).status is OwnCharacterStatus.QUEUED


async def test_recordings_that_their_owner_keeps_stay_until_the_owner_lets_them_go(
    stage: RunnerStage,
) -> None:
    character = await stage.queued()

    async def keep(*, is_wanted: bool) -> None:
        await change_own(
            stage.store,
            character.character_id,
            lambda each, now: own_character.keep_recordings(each, is_wanted=is_wanted, now=now),
        )

    await keep(is_wanted=True)
    await stage.runner().train_next()
    await stage.runner().cleaner.clean()
    assert len(stage.recordings.objects) == 2
    both = ["card.json", *(f"{whose}-1-{what}.wav" for whose in ("other", "own") for what in PAIR)]
    assert card_of(stage, character) == both

    await keep(is_wanted=False)
    await stage.runner().cleaner.clean()

    assert not stage.recordings.objects
    assert card_of(stage, character) == both[:3]
    stored = await stage.stored(character)
    assert (stored.status, stored.has_recordings) == (OwnCharacterStatus.READY, False)


@pytest.mark.parametrize(
    ("behaviour", "code", "message", "names"),
    [
        ("refuse", "recordings_refused", "recordings: expected 2 minutes, found 5 s", 0),
        ("refuse with echo", "echo", "recordings: expected one voice, found two.", 1),
        ("refuse with temper", "recordings_refused", r"recordings: .*\[temper\] .*", 0),
    ],
)
async def test_what_the_training_refuses_is_told_to_the_owner_who_keeps_the_recordings(
    stage: RunnerStage, behaviour: str, code: str, message: str, names: int
) -> None:
    character = await stage.trained(behaviour)
    error = await failure_of(stage, character)
    assert error.code == code
    assert re.fullmatch(message, error.message)
    assert len(stage.recordings.objects) == 2
    (spoken,) = (name for name in stage.recordings.objects if "/speech/" in name)
    assert error.recordings == (spoken.rpartition("/")[2],) * names


@pytest.mark.parametrize("consent", [b"<html>", speech(0.1)])
async def test_a_consent_that_is_no_speech_is_refused_before_the_training(
    stage: RunnerStage, consent: bytes
) -> None:
    character = await stage.trained(consent=consent)
    assert (await failure_of(stage, character)).code == "consent_refused"
    assert not stage.characters.objects


async def test_a_trainer_that_crashes_gets_one_more_try_and_then_the_training_has_failed(
    stage: RunnerStage,
) -> None:
    character = await stage.queued()
    for attempt in range(1, MAX_TRIES + 1):
        await stage.runner("crash").train_next()
        stored = await stage.stored(character)
        assert (stored.status, stored.attempt) == (OwnCharacterStatus.QUEUED, attempt)
    await stage.runner("crash").train_next()
    assert (await failure_of(stage, character)).code == "attempts_exhausted"
    assert not await stage.runner().train_next()


async def test_a_trainer_that_takes_too_long_is_killed(stage: RunnerStage) -> None:
    character = await stage.queued()
    await stage.runner("hang", seconds=1).train_next()
    assert (await stage.stored(character)).status is OwnCharacterStatus.QUEUED
    assert not trainers()


async def test_a_character_that_is_deleted_while_it_is_trained_ends_the_training(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RENEW_SECONDS", 0.05)
    character = await stage.queued()
    training = asyncio.create_task(stage.runner("hang").train_next())
    await until_training(stage, character)
    assert trainers()

    await stage.store.delete(character.character_id)

    async with asyncio.timeout(10):
        assert await training
    assert not trainers()
    assert not stage.characters.objects


async def test_a_character_that_is_deleted_while_it_is_published_leaves_no_bundle(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    character = await stage.queued()
    write = stage.characters.write

    async def write_and_delete(name: str, content: BinaryIO, **options: Any) -> ObjectFacts:
        written = await write(name, content, **options)
        if name.endswith("/character.json"):
            await stage.store.delete(character.character_id)
        return written

    monkeypatch.setattr(stage.characters, "write", write_and_delete)
    await stage.runner().train_next()
    with pytest.raises(UnknownOwnCharacterError):
        await stage.stored(character)
    own = [each for each in stage.characters.objects if each.startswith(character.character_id)]
    assert own == []


async def test_a_runner_that_is_stopped_hands_its_character_back_and_that_is_no_try(
    stage: RunnerStage,
) -> None:
    character = await stage.queued()
    stopped = asyncio.create_task(stage.runner("hang").train_next())
    await until_training(stage, character)
    stopped.cancel()
    with suppress(asyncio.CancelledError):
        await stopped
    assert not trainers()
    stored = await stage.stored(character)
    assert (stored.status, stored.attempt, stored.tries) == (OwnCharacterStatus.QUEUED, 1, 0)

    assert await stage.runner().train_next()
    stored = await stage.stored(character)
    assert (stored.status, stored.attempt, stored.tries) == (OwnCharacterStatus.READY, 2, 1)


async def test_a_bundle_whose_character_was_deleted_while_its_trainer_was_killed_is_removed(
    stage: RunnerStage,
) -> None:
    ready = await stage.trained()
    published = {name: each.data for name, each in stage.characters.objects.items()}
    orphan = new_character_id()
    written = int(datetime.now(UTC).timestamp() * 1_000_000)
    for name, data in published.items():
        stored = StoredObject(data, "application/json", written)
        stage.characters.objects[name] = stored
        stage.characters.objects[name.replace(ready.character_id, orphan)] = stored

    await stage.runner().cleaner.clean()

    assert set(stage.characters.objects) == set(published)


@pytest.mark.parametrize("behaviour", ["break", "draw a script"])
async def test_a_bundle_that_does_not_work_is_not_published(
    stage: RunnerStage, behaviour: str
) -> None:
    character = await stage.trained(behaviour)
    assert (await failure_of(stage, character)).code == "bundle_refused"
    assert not stage.characters.objects


async def test_a_bucket_out_of_reach_ends_the_job_and_is_no_try(stage: RunnerStage) -> None:
    character = await stage.queued()
    for bucket in (stage.recordings, stage.characters):
        bucket.is_out_of_reach = True
        with pytest.raises(StorageUnavailableError):
            await train_waiting_characters(stage.runner(), begin_seconds=600, patience_seconds=0)
        stored = await stage.stored(character)
        assert (stored.status, stored.tries) == (OwnCharacterStatus.QUEUED, 0)
        bucket.is_out_of_reach = False
    await stage.runner().train_next()
    assert (await stage.stored(character)).status is OwnCharacterStatus.READY


async def test_the_recordings_of_a_ready_character_go_as_soon_as_their_bucket_answers_again(
    stage: RunnerStage,
) -> None:
    character = await stage.trained()
    stage.recordings.is_out_of_reach = True
    with pytest.raises(StorageUnavailableError):
        await stage.runner().cleaner.clean()
    stage.recordings.is_out_of_reach = False
    await stage.runner().cleaner.clean()
    assert not stage.recordings.objects
    cleaned = await stage.stored(character)
    await stage.runner().cleaner.clean()
    assert await stage.stored(character) == cleaned


async def test_what_was_begun_and_left_is_deleted_when_its_time_is_over_and_a_ready_one_stays(
    stage: RunnerStage,
) -> None:
    ready = await stage.trained()
    failed = await stage.trained("refuse")
    stage.clock.advance(timedelta(days=COLLECTING_DAYS) - timedelta(seconds=1))
    await stage.runner().cleaner.clean()
    assert stage.recordings.objects
    stage.clock.advance(timedelta(seconds=1))
    await stage.runner().cleaner.clean()
    assert not stage.recordings.objects
    assert (await stage.stored(ready)).status is OwnCharacterStatus.READY
    with pytest.raises(UnknownOwnCharacterError):
        await stage.stored(failed)


@pytest.mark.parametrize("status", ["deleted", "ready"])
async def test_a_recording_that_comes_when_nobody_may_keep_it_any_more_is_deleted(
    stage: RunnerStage, status: str
) -> None:
    character, other = await stage.queued(), await stage.queued()
    if status == "deleted":
        await stage.recordings.delete_all(recordings_prefix(character.character_id))
        await stage.store.delete(character.character_id)
    else:
        await stage.runner().train_next()
        await stage.runner().cleaner.clean()
    # An address that was signed before works for ten minutes.
    late = new_recording_name(character.character_id, Kind.SPEECH)
    stage.recordings.put(late, b"sound")

    await stage.runner().cleaner.clean()

    assert {name.split("/")[0] for name in stage.recordings.objects} == {other.character_id}
    assert len(stage.recordings.objects) == 2


async def test_recordings_are_deleted_while_another_character_is_trained(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CLEAN_SECONDS", 0.02)
    character = await stage.queued()
    running = asyncio.create_task(stage.runner("hang").run())
    await until_training(stage, character)
    late = new_recording_name(new_character_id(), Kind.SPEECH)
    stage.recordings.put(late, b"sound")
    async with asyncio.timeout(10):
        while late in stage.recordings.objects:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert len(stage.recordings.objects) == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("size", "most"),
    [
        (1, 2 * MAX_RECORDINGS),
        (MAX_RECORDING_BYTES, 1 + 2 * MAX_TOTAL_BYTES // MAX_RECORDING_BYTES),
    ],
)
async def test_of_recordings_that_are_too_many_or_too_large_those_that_came_last_are_deleted(
    stage: RunnerStage, size: int, most: int
) -> None:
    character, content = await stage.queued(), bytes(size)
    first = set(stage.recordings.objects)
    for _ in range(most):
        stage.recordings.put(new_recording_name(character.character_id, Kind.SPEECH), content)
    await stage.runner().cleaner.clean()
    assert len(stage.recordings.objects) == most
    assert first <= set(stage.recordings.objects)


@pytest.mark.parametrize("kind", [Kind.CONSENT, Kind.SPEECH])
async def test_recordings_that_came_after_the_training_was_asked_for_are_not_trained_with(
    stage: RunnerStage, kind: Kind
) -> None:
    character = await stage.queued()
    for _ in range(1 if kind is Kind.CONSENT else MAX_RECORDINGS - 1):
        stage.recordings.put(new_recording_name(character.character_id, kind), speech(1))
    await stage.runner().train_next()
    error = await failure_of(stage, character)
    assert error.code == "recordings_refused"
    assert "came after the training was asked for" in error.message


NEEDED = {
    "project_id": "p",
    "log_key": "k" * 64,
    "uploads_bucket": "uploads",
    "characters_bucket": "characters",
    "own_recordings_bucket": "recordings",
}


async def test_a_job_trains_what_waits_deletes_the_recordings_and_ends(stage: RunnerStage) -> None:
    characters = [await stage.queued(), await stage.queued()]
    assert (
        await train_waiting_characters(stage.runner(), begin_seconds=600, patience_seconds=0) == 2
    )
    assert {(await stage.stored(each)).status for each in characters} == {OwnCharacterStatus.READY}
    assert not stage.recordings.objects


async def test_a_job_begins_no_training_that_it_could_not_end(stage: RunnerStage) -> None:
    character, times = await stage.queued(), iter((0.0, 1801.0))
    clock = lambda: next(times)  # noqa: E731
    trained = await train_waiting_characters(
        stage.runner(), begin_seconds=1800, patience_seconds=0, now=clock
    )
    assert trained == 0
    assert (await stage.stored(character)).status is OwnCharacterStatus.QUEUED


async def test_a_job_that_is_started_again_waits_for_the_lease_of_the_one_that_was_killed(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LOOK_AGAIN_SECONDS", 0.01)
    character = await stage.leased(await stage.queued())
    assert (
        await train_waiting_characters(stage.runner(), begin_seconds=600, patience_seconds=0) == 0
    )
    again = asyncio.create_task(
        train_waiting_characters(stage.runner(), begin_seconds=600, patience_seconds=60)
    )
    await asyncio.sleep(0.1)
    assert not again.done()
    stage.clock.advance(timedelta(seconds=runner.LEASE_SECONDS))
    async with asyncio.timeout(30):
        while (await stage.stored(character)).status is not OwnCharacterStatus.READY:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    again.cancel()
    assert (await stage.stored(character)).attempt == 2


@pytest.mark.parametrize("at_once", [1, 2])
async def test_no_more_characters_are_trained_at_once_than_may_be(
    stage: RunnerStage, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(runner, "STEP_BACK_SECONDS", 0.01)
    characters = [await stage.queued() for _ in range(4)]
    most, store = 0, stage.store
    runners = [stage.runner(at_once=at_once) for _ in characters]

    async def make(_runner: runner.TrainingRunner, character: OwnCharacter) -> None:
        nonlocal most
        for _ in range(3):
            most = max(most, len(await store.find_in_training(limit=10)))
            await asyncio.sleep(0.01)
        attempt = character.attempt
        await change_own(
            store,
            character.character_id,
            lambda each, now: own_character.finish(each, attempt, now),
        )

    monkeypatch.setattr(runner.TrainingRunner, "_make", make)
    async with asyncio.timeout(60):
        while await store.find_waiting(limit=1):
            await asyncio.gather(*(each.train_next() for each in runners))
    found = [await stage.stored(each) for each in characters]
    assert {(each.status, each.tries) for each in found} == {(OwnCharacterStatus.READY, 1)}
    assert most == at_once


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"characters_bucket": None}, "CHARACTERS_BUCKET must be set"),
        ({"training_seconds": 3600}, "TRAINING_SECONDS=3600 must be less than JOB_SECONDS=3600"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    load(TrainSettings, **NEEDED)
    with pytest.raises(SettingsError, match=message):
        load(TrainSettings, **NEEDED | wrong)


def test_a_job_with_wrong_settings_does_not_start_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OWN_RECORDINGS_BUCKET", raising=False)
    monkeypatch.setenv("TRAININGS_AT_ONCE", "many")
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "OWN_RECORDINGS_BUCKET is not set" in said
    assert "TRAININGS_AT_ONCE='many' is wrong" in said
