"""Faults of the job that trains visitors' own characters: real processes, Firestore's emulator.

The training command is stood in for by a program that keeps the same files and copies a bundle.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import psutil
import pytest
import pytest_asyncio

from functions.train.settings import TrainSettings
from infra.local.configuration import names
from infra.local.configuration.options import ROOT
from shared.characters.bucket import manifest_name, new_character_id
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character as own
from shared.characters.own.own_character import (
    OwnCharacter,
    OwnCharacterStatus,
    TypedConsent,
)
from shared.characters.own.recordings import (
    CARD,
    Kind,
    card_prefix,
    new_recording_name,
    progress_prefix,
    recordings_prefix,
)
from shared.characters.own.store import DayLimits, UnknownOwnCharacterError
from shared.google import clients
from shared.runtime.settings import load
from shared.speech.results.audio_files import write_wav
from tests.support.owners import RATE, minutes_of_reading, spoken
from tests.unit.train.stage import BUNDLE, PROGRAM, speech

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shared.characters.own.store import OwnCharacterStore
    from shared.ports import Bucket
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

_LOG = logging.getLogger(__name__)

STAGES = {
    "selection": "reading",
    "lessons": "preparing",
    "others": "preparing others",
    "learner": "learning the voice",
}
MANY = DayLimits(1000, 1000)
PATIENCE = 90
TRAINING_PATIENCE = 1200
STAND_IN = """
import json, pathlib, runpy, sys
here = pathlib.Path(__file__).parents[2]
character = sys.argv[sys.argv.index("--as") + 1]
behaviour = json.loads((here / "behaviours.json").read_text()).get(character, "train")
sys.argv[1:1] = [behaviour, {bundle!r}]
runpy.run_path({program!r}, {{"JOURNAL": str(here / "journal.txt")}}, "__main__")
"""


@dataclass
class FaultyWorkshop:
    """What the jobs work with, and the test's view of it."""

    folder: Path
    environment: dict[str, str]
    store: OwnCharacterStore
    recordings: Bucket
    characters: Bucket

    def behave(self, behaviours: dict[str, str]) -> None:
        (self.folder / "behaviours.json").write_text(json.dumps(behaviours))

    def made(self, character: OwnCharacter) -> list[str]:
        """Return which stages were gone through, in the order of their ends."""
        lines = (self.folder / "journal.txt").read_text().split("\n")
        return [stage for each in lines if each for who, stage in [each.split(" ")]
                if who == character.character_id]  # fmt: skip

    async def start(self, *, is_restarted: bool = False) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.robustness.faults.train_with_short_leases"),
            cwd=ROOT,
            env=self.environment | {"CLOUD_RUN_TASK_ATTEMPT": str(int(is_restarted))},
        )

    async def run(self, *, is_restarted: bool = False) -> int:
        """Run a job to its end; return its exit status."""
        async with asyncio.timeout(PATIENCE):
            return await (await self.start(is_restarted=is_restarted)).wait()

    async def queued(self) -> OwnCharacter:
        """Begin a character, bring recordings of nobody, and ask for the training."""
        character = await self.begun("en")
        await self.bring(character, Kind.SPEECH, speech(5))
        await self.bring(character, Kind.CONSENT, speech(2))
        return await self.asked_for(character)

    async def begun(self, language: Literal["en", "ja"]) -> OwnCharacter:
        now = datetime.now(UTC)
        begun = own.begin(
            new_character_id(),
            name="Ada's voice",
            key="a secret",
            owner=None,
            consent=TypedConsent("Ada Example", "ada@example.org", now.date().isoformat()),
            sentence=draw_sentence(language, now.date()),
            now=now,
        )
        await self.store.create(begun, limits=MANY, by="ada")
        return begun

    async def bring(self, character: OwnCharacter, kind: Kind, sound: bytes) -> None:
        name = new_recording_name(character.character_id, kind)
        await self.recordings.write(name, io.BytesIO(sound), content_type="audio/wav")

    async def asked_for(self, character: OwnCharacter) -> OwnCharacter:
        snapshot = await self.store.read(character.character_id)
        queued = own.queue(snapshot.character, datetime.now(UTC))
        return (await self.store.replace(snapshot, queued)).character

    async def stored(self, character: OwnCharacter) -> OwnCharacter:
        return (await self.store.read(character.character_id)).character

    async def kept(self, character: OwnCharacter) -> set[str]:
        """Return which files of its training are in the bucket."""
        found = await self.recordings.list(progress_prefix(character.character_id))
        return {each.name.rpartition("-")[2].removesuffix(".pickle") for each in found}

    async def until_hanging(self, character: OwnCharacter, stage: str) -> None:
        """Wait until a training hangs in a stage, and what was before it is in the bucket."""
        before = set(list(STAGES)[: list(STAGES).index(stage)])
        async with asyncio.timeout(PATIENCE):
            while True:
                is_there = (await self.stored(character)).stage == STAGES[stage]
                if is_there and await self.kept(character) == before:
                    return
                await asyncio.sleep(0.1)

    async def require_one_bundle(self, character: OwnCharacter) -> None:
        """Require that it is ready with one bundle, and that nothing else is left of it."""
        stored = await self.stored(character)
        assert stored.status is OwnCharacterStatus.READY, stored
        found = await self.characters.list(f"{character.character_id}/")
        card = card_prefix(character.character_id)
        written = [each.name for each in found if each.name.endswith(".json")]
        assert sorted(written) == [card + CARD, manifest_name(character.character_id)]
        assert not await self.recordings.list(recordings_prefix(character.character_id))


@pytest_asyncio.fixture(loop_scope="session")
async def workshop(cloud: FaultyCloud, tmp_path: Path) -> AsyncIterator[FaultyWorkshop]:
    command = tmp_path / "tools" / "training" / "__main__.py"
    command.parent.mkdir(parents=True)
    (command.parents[1] / "__init__.py").touch()
    (command.parent / "__init__.py").touch()
    command.write_text(STAND_IN.format(bundle=str(BUNDLE), program=str(PROGRAM)))
    (tmp_path / "journal.txt").touch()
    told = {
        "PROJECT_ID": names.PROJECT_ID,
        "ENVIRONMENT": "local",
        "UPLOADS_BUCKET": names.UPLOADS_BUCKET,
        "CHARACTERS_BUCKET": names.CHARACTERS_BUCKET,
        "OWN_RECORDINGS_BUCKET": names.OWN_RECORDINGS_BUCKET,
        "TRAINING_FOLDER": str(tmp_path),
        "TRAININGS_AT_ONCE": "9",
        "FIRESTORE_EMULATOR_HOST": str(cloud.addresses.firestore),
        "STORAGE_EMULATOR_HOST": cloud.addresses.storage,
        "PYTHONPATH": str(ROOT),
    }
    config = load(TrainSettings, **{name.lower(): value for name, value in told.items()})
    open_characters = clients.characters_opener(config)
    assert open_characters is not None
    store = clients.open_own_characters(config)
    opened = FaultyWorkshop(
        tmp_path,
        {**os.environ, **told},
        store,
        clients.open_single_bucket(config, names.OWN_RECORDINGS_BUCKET),
        open_characters(),
    )
    opened.behave({})
    yield opened
    await store.aclose()


def signal_all(job: Process, number: signal.Signals) -> None:
    """Send a signal to a job and whatever it has started, as to a container."""
    with suppress(psutil.NoSuchProcess):
        for each in [*psutil.Process(job.pid).children(recursive=True), psutil.Process(job.pid)]:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)


async def test_a_job_that_is_killed_in_any_stage_is_gone_on_with_where_it_was(
    workshop: FaultyWorkshop,
) -> None:
    characters = {stage: await workshop.queued() for stage in STAGES}
    workshop.behave({each.character_id: f"hang in {name}" for name, each in characters.items()})
    jobs = [await workshop.start() for _ in STAGES]
    for stage, character in characters.items():
        await workshop.until_hanging(character, stage)
    for each in jobs:
        signal_all(each, signal.SIGKILL)
        assert await each.wait() == -signal.SIGKILL
    workshop.behave({})

    # Cloud Run starts a task again at once: before the leases have ended.
    assert await workshop.run(is_restarted=True) == 0

    for character in characters.values():
        await workshop.require_one_bundle(character)
        assert workshop.made(character) == list(STAGES)
        assert (await workshop.stored(character)).tries == 2


async def test_a_job_that_is_stopped_hands_its_character_back_at_once(
    workshop: FaultyWorkshop,
) -> None:
    character = await workshop.queued()
    workshop.behave({character.character_id: "hang in others"})
    job = await workshop.start()
    await workshop.until_hanging(character, "others")

    job.send_signal(signal.SIGTERM)

    assert await job.wait() == 143
    stored = await workshop.stored(character)
    assert (stored.status, stored.tries) == (OwnCharacterStatus.QUEUED, 0)
    workshop.behave({})
    assert await workshop.run() == 0
    await workshop.require_one_bundle(character)
    assert workshop.made(character) == list(STAGES)


async def test_a_character_that_several_jobs_are_started_for_is_trained_once(
    workshop: FaultyWorkshop,
) -> None:
    character = await workshop.queued()
    ended = await asyncio.gather(*(workshop.run() for _ in range(3)))
    assert ended == [0, 0, 0]
    await workshop.require_one_bundle(character)
    assert workshop.made(character) == list(STAGES)
    assert (await workshop.stored(character)).tries == 1


async def test_a_character_that_is_deleted_while_it_is_trained_leaves_nothing(
    workshop: FaultyWorkshop,
) -> None:
    character = await workshop.queued()
    workshop.behave({character.character_id: "hang in lessons"})
    job = await workshop.start()
    await workshop.until_hanging(character, "lessons")

    await workshop.store.delete(character.character_id)

    async with asyncio.timeout(PATIENCE):
        assert await job.wait() == 0
    with pytest.raises(UnknownOwnCharacterError):
        await workshop.stored(character)
    prefix = recordings_prefix(character.character_id)
    assert not [*await workshop.recordings.list(prefix), *await workshop.characters.list(prefix)]


async def test_a_job_that_stood_still_until_another_had_made_the_character_changes_nothing(
    workshop: FaultyWorkshop,
) -> None:
    character = await workshop.queued()
    workshop.behave({character.character_id: "hang in learner"})
    frozen = await workshop.start()
    await workshop.until_hanging(character, "learner")
    signal_all(frozen, signal.SIGSTOP)
    workshop.behave({})

    assert await workshop.run(is_restarted=True) == 0
    await workshop.require_one_bundle(character)
    done = await workshop.stored(character)
    signal_all(frozen, signal.SIGCONT)

    async with asyncio.timeout(PATIENCE):
        assert await frozen.wait() == 0
    await workshop.require_one_bundle(character)
    assert await workshop.stored(character) == done


@pytest.mark.trains
async def test_a_real_training_that_is_killed_while_it_learns_goes_on_from_what_it_had_learnt(
    workshop: FaultyWorkshop, trainer: Path
) -> None:
    workshop.environment |= {"TRAINING_PYTHON": str(trainer), "TRAINING_FOLDER": str(ROOT)}
    character = await workshop.begun("ja")
    for recording in minutes_of_reading():
        await workshop.bring(character, Kind.SPEECH, write_wav(recording, RATE))
    agreement = write_wav(spoken(character.sentence.text), RATE)
    await workshop.bring(character, Kind.CONSENT, agreement)
    await workshop.asked_for(character)
    job = await workshop.start()
    begin = time.monotonic()
    async with asyncio.timeout(TRAINING_PATIENCE):
        while True:
            stored = await workshop.stored(character)
            has_learnt = stored.stage == "learning the voice" and (stored.share or 0) > 0.4
            if has_learnt and "learner.pt" in await workshop.kept(character):
                break
            assert job.returncode is None
            await asyncio.sleep(0.2)

    signal_all(job, signal.SIGKILL)

    assert await job.wait() == -signal.SIGKILL
    killed = time.monotonic()
    again = await workshop.start(is_restarted=True)
    shares: list[float] = []
    async with asyncio.timeout(TRAINING_PATIENCE):
        while again.returncode is None:
            stored = await workshop.stored(character)
            if stored.stage == "learning the voice" and stored.share is not None:
                shares.append(stored.share)
            await asyncio.sleep(0.2)
    _LOG.info("killed after %.0f s, ready %.0f s later", killed - begin, time.monotonic() - killed)
    assert again.returncode == 0
    assert min(shares) > 0.2
    await workshop.require_one_bundle(character)
    assert (await workshop.stored(character)).tries == 2
