"""From chosen utterances to a trained decoder, in stages that are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from training.content.hearing import Ear
from training.content.voices import Voices, begin
from training.decoder.export import Melody
from training.decoder.network import Network
from training.decoder.variance import widen
from training.recordings.choosing.screening import Utterance
from training.recordings.runs.progress import Progress
from training.recordings.runs.work import WorkFolder
from training.recordings.teaching.learning import (
    Disturber,
    Learner,
    Lessons,
    Objective,
    Plan,
    scale_of,
    whole,
)
from training.recordings.teaching.preparation import Lesson, Pair, Preparation, joined

_COMPENSATED_WITH = 150
_VERSIONS_OF_OTHERS, _HARSH_VERSIONS_OF_OTHERS = 1, 3
_OWNER = "owner"


@dataclass(frozen=True)
class Material:
    """What a decoder is trained with.

    Attributes:
        owner: the owner's utterances.
        others: of other people by name, whose voices are learnt beside, so that what the owner
            has not said is not forgotten; may be empty.
        pairs: what strangers and the owner said alike, frame by frame; hardly anybody has any.
    """

    owner: Sequence[Utterance]
    others: Mapping[str, Sequence[Utterance]]
    pairs: Sequence[Pair] = ()


@dataclass(frozen=True)
class Effort:
    """How much is trained.

    Attributes:
        plan: of the decoder.
        seed: of everything that is drawn.
        owner_share: of what is learnt is the owner's.
        is_harsh: what is heard is disturbed more.
        compensated: the share of the variance that lacks at the end, and is given back.
    """

    plan: Plan = field(default_factory=Plan)
    seed: int = 1
    owner_share: float = 0.6
    is_harsh: bool = False
    compensated: float = 0.8

    def quick(self) -> "Effort":
        """A hundredth of it, to try the path."""
        return replace(self, plan=replace(self.plan, steps=20))


@dataclass(frozen=True)
class Trained:
    """A decoder and how high its owner speaks."""

    network: Network
    melody: Melody


@dataclass(frozen=True)
class Training:
    """The stages of one training.

    Attributes:
        ear: hears what the decoder is given.
        effort: how much is trained.
        work: where it goes on after a break.
        progress: is told about every stage.
    """

    ear: Ear
    effort: Effort
    work: WorkFolder
    progress: Progress

    def run(self, material: Material) -> Trained:
        """Train a decoder for the owner of the material."""
        torch.set_num_threads(1)
        owner = self.prepare(material.owner)
        pairs = self.prepare_pairs(material.pairs)
        versions = _HARSH_VERSIONS_OF_OTHERS if self.effort.is_harsh else _VERSIONS_OF_OTHERS
        others = self.prepare_others(material.others, versions)
        network = self.learn(owner, others, pairs).alone(0)
        compensate(network, owner, self.effort.compensated)
        melody = np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in owner])
        return Trained(network, Melody.of(melody))

    def prepare(self, utterances: Sequence[Utterance]) -> list[Lesson]:
        """The owner's lessons."""
        self.progress.begin("preparing")
        preparation = Preparation(self.ear, self.effort.seed, is_harsh=self.effort.is_harsh)
        spoken = joined(utterances)
        lessons = self.work.kept("lessons", lambda: self._all(preparation.of(spoken), len(spoken)))
        return _useful(lessons)

    def prepare_others(
        self, people: Mapping[str, Sequence[Utterance]], versions: int
    ) -> dict[str, list[Lesson]]:
        """Lessons of other people by name, with so many disturbed versions of each."""
        self.progress.begin("preparing others")
        preparation = Preparation(
            self.ear, self.effort.seed + 1, versions, is_harsh=self.effort.is_harsh
        )

        def make() -> dict[str, list[Lesson]]:
            made = {}
            for number, (name, utterances) in enumerate(people.items()):
                made[name] = list(preparation.of(joined(utterances)))
                self.progress.report(number + 1, len(people))
            return made

        lessons: dict[str, list[Lesson]] = self.work.kept("others", make)
        useful = {name: _useful(one) for name, one in lessons.items()}
        return {name: one for name, one in useful.items() if one}

    def prepare_pairs(self, pairs: Sequence[Pair]) -> list[Lesson]:
        """Lessons whose content is strangers' and whose envelopes are the owner's."""
        if not pairs:
            return []
        self.progress.begin("preparing pairs")
        preparation = Preparation(self.ear, self.effort.seed + 2, is_harsh=self.effort.is_harsh)
        lessons = self.work.kept(
            "pairs", lambda: self._all(preparation.of_pairs(pairs), len(pairs))
        )
        return _useful(lessons)

    def learn(
        self,
        owner: Sequence[Lesson],
        others: Mapping[str, Sequence[Lesson]],
        pairs: Sequence[Lesson] = (),
    ) -> Voices:
        """Voices of which the first is the owner's, from what an average speaker's begins as."""
        people = {_OWNER: owner, **others}
        share = self.effort.owner_share
        shares = [share] + [(1 - share) / max(len(others), 1)] * len(others)
        voices = begin({name: scale_of(one) for name, one in people.items()})
        lessons = Lessons([[*owner, *pairs], *others.values()], shares, self.effort.seed)
        return self.teach(voices, lessons)

    def teach(self, voices: Voices, lessons: Lessons) -> Voices:
        """Train voices, in place, with what is drawn from lessons; goes on where it stopped."""
        disturb, objective = Disturber(self.effort.seed), Objective()

        def loss(voices: Voices, step: int) -> tuple[Tensor, float]:
            batch = lessons.batch(step, self.effort.plan.batch)
            result: tuple[Tensor, float] = objective(voices, disturb(batch, step), batch.voicing)
            return result

        self.progress.begin("learning the voice")
        learner = Learner(voices, self.effort.plan, loss, self.work.path / "learner.pt")
        return learner.run(self.progress.report)

    def _all(self, lessons: Iterator[Lesson], count: int) -> list[Lesson]:
        made = []
        for lesson in lessons:
            made.append(lesson)
            self.progress.report(len(made), count)
        return made


def _useful(lessons: Sequence[Lesson]) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.speaking.any() and lesson.log_f0.any()]


def compensate(network: Network, owner: Sequence[Lesson], share: float) -> None:
    """Give the envelopes a share of the variance that they lack, in place."""
    spoken, wanted = [], []
    for lesson in owner[:: max(1, len(owner) // _COMPENSATED_WITH)]:
        batch = whole(lesson)
        with torch.no_grad():
            cepstra, _ = network.speak(batch.content, batch.f0, batch.voicing)
        spoken.append(cepstra[0].numpy()[lesson.speaking])
        wanted.append(lesson.cepstra[lesson.speaking].astype(np.float32))
    widen(network, np.concatenate(spoken), np.concatenate(wanted), share)
