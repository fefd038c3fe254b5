"""A trainer's side of the own characters, with everything around it in memory."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from functions.train.runner import LEASE_SECONDS, TrainingRunner
from functions.train.trainer import Trainer, environment_of_trainer
from infra.local.cloud.memory import MemoryOwnCharacters
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character as own
from shared.characters.own.recordings import Kind, new_recording_name
from shared.characters.own.store import change_own
from shared.speech.results.audio_files import write_wav
from tests.support.buckets import MemoryBucket
from tests.support.clock import Calendar
from tests.support.own_character_contract import MANY, a_begun

if TYPE_CHECKING:
    from shared.characters.own.own_character import OwnCharacter
    from shared.speech.decoding.decoder import Decoder

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("trainer_program.py")
BUNDLE = ROOT / "characters" / "mei"
RATE = 16_000


def speech(seconds: float) -> bytes:
    time = np.arange(int(seconds * RATE), dtype=np.float32) / RATE
    return write_wav(0.3 * np.sin(2 * np.pi * 200 * time).astype(np.float32), RATE)


@dataclass
class RunnerStage:
    decoder: Decoder
    folder: Path
    python: str
    bundle: Path = ROOT / "tests" / "data" / "bundles" / "mei"
    clock: Calendar = field(default_factory=lambda: Calendar(datetime.now(UTC)))
    recordings: MemoryBucket = field(default_factory=lambda: MemoryBucket("recordings"))
    characters: MemoryBucket = field(default_factory=lambda: MemoryBucket("characters"))

    def __post_init__(self) -> None:
        self.store = MemoryOwnCharacters(self.clock)

    def runner(
        self, behaviour: str = "train", seconds: float = 60, at_once: int = 1
    ) -> TrainingRunner:
        command = (self.python, str(PROGRAM), behaviour, str(self.bundle))
        trainer = Trainer(command, ROOT, seconds, environment_of_trainer(os.environ))
        return TrainingRunner(
            self.store, self.recordings, self.characters, self.decoder, trainer, at_once
        )

    async def queued(self, **sound: bytes) -> OwnCharacter:
        """Begin a character, bring its recordings, and ask for the training."""
        now = self.clock()
        sentence = draw_sentence("en", now.date())
        character = a_begun(now, name="Ada's voice", owner=None, sentence=sentence)
        for kind, data in ({"speech": speech(5), "consent": speech(2)} | sound).items():
            name = new_recording_name(character.character_id, Kind(kind))
            await self.recordings.write(name, io.BytesIO(data), content_type="audio/wav")
        await self.store.create(character, limits=MANY, by="ada")
        snapshot = await self.store.read(character.character_id)
        return (await self.store.replace(snapshot, own.queue(character, now))).character

    async def trained(self, behaviour: str = "train", **sound: bytes) -> OwnCharacter:
        """Ask for a training, and let a runner carry it out."""
        character = await self.queued(**sound)
        await self.runner(behaviour).train_next()
        return character

    async def leased(self, character: OwnCharacter) -> OwnCharacter:
        """Lease a character as a runner does that is killed then."""
        lease = partial(own.lease, seconds=LEASE_SECONDS)
        return await change_own(self.store, character.character_id, lease)

    async def asked_again(self, character: OwnCharacter) -> None:
        """Use all tries up, and ask for another training, as an owner does."""
        await self.runner().train_next()
        await change_own(self.store, character.character_id, own.queue)

    async def stored(self, character: OwnCharacter) -> OwnCharacter:
        return (await self.store.read(character.character_id)).character
