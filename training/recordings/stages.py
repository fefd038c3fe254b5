"""From chosen utterances to a trained decoder, in stages that are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from training.export import Melody
from training.network import Network
from training.recordings import distillation
from training.recordings.learning import (
    Batch,
    Disturber,
    Learner,
    Lessons,
    Objective,
    Plan,
    crop,
    fresh_decoder,
)
from training.recordings.preparation import Lesson, Preparation
from training.recordings.progress import Progress
from training.recordings.screening import Utterance
from training.recordings.work import WorkFolder
from training.variance import widen

_COMPENSATED, _COMPENSATED_AFTER_DISTILLATION = 0.8, 1.0
_COMPENSATED_WITH = 150
_VERSIONS_OF_OTHERS = 1


@dataclass(frozen=True)
class Material:
    """What a decoder is trained with.

    Attributes:
        owner: the owner's utterances.
        others: of other people, who are only heard; may be empty.
    """

    owner: Sequence[Utterance]
    others: Sequence[Utterance]


@dataclass(frozen=True)
class Effort:
    """How much is trained.

    Attributes:
        plan: of the decoder.
        distillation: of what comes after it if there are others.
        seed: of everything that is drawn.
    """

    plan: Plan = field(default_factory=Plan)
    distillation: Plan = distillation.PLAN
    seed: int = 1

    def quick(self) -> "Effort":
        """A hundredth of it, to try the path."""
        return replace(
            self,
            plan=replace(self.plan, steps=20),
            distillation=replace(self.distillation, steps=10),
        )


@dataclass(frozen=True)
class Trained:
    """A decoder and how high its owner speaks."""

    network: Network
    melody: Melody


@dataclass(frozen=True)
class Training:
    """The stages of one training.

    Attributes:
        base: the network whose encoder is used.
        effort: how much is trained.
        work: where it goes on after a break.
        progress: is told about every stage.
    """

    base: Network
    effort: Effort
    work: WorkFolder
    progress: Progress

    def run(self, material: Material) -> Trained:
        """Train a decoder for the owner of the material."""
        torch.set_num_threads(1)
        owner = self.prepare(material.owner)
        network, share = self.learn(owner), _COMPENSATED
        if material.others:
            network = self.distil(network, owner, material.others)
            share = _COMPENSATED_AFTER_DISTILLATION
        compensate(network, owner, share)
        melody = np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in owner])
        return Trained(network, Melody.of(melody))

    def prepare(self, utterances: Sequence[Utterance]) -> list[Lesson]:
        """The owner's lessons."""
        self.progress.begin("preparing")
        preparation = Preparation(self.base, self.effort.seed)
        lessons = self.work.kept(
            "lessons", lambda: self._all(preparation.of_owner(utterances), len(utterances))
        )
        return [lesson for lesson in lessons if lesson.speaking.any() and lesson.log_f0.any()]

    def learn(self, owner: Sequence[Lesson]) -> Network:
        """A decoder that speaks the owner's envelopes."""
        seed = self.effort.seed
        lessons, disturb, objective = Lessons(owner, seed), Disturber(seed), Objective()

        def loss(network: Network, step: int) -> tuple[Tensor, float]:
            batch = lessons.batch(step, self.effort.plan.batch)
            result: tuple[Tensor, float] = objective(network, disturb(batch, step), batch.voicing)
            return result

        self.progress.begin("learning the voice")
        network = fresh_decoder(self.base, owner, seed)
        learner = Learner(network, self.effort.plan, loss, self.work.path / "learner.pt")
        return learner.run(self.progress.report)

    def distil(
        self, network: Network, owner: Sequence[Lesson], others: Sequence[Utterance]
    ) -> Network:
        """The decoder after it has learnt to hear other people as it hears the owner."""
        self.progress.begin("hearing others")
        preparation = Preparation(self.base, self.effort.seed + 1, _VERSIONS_OF_OTHERS)
        heard = self.work.kept(
            "others", lambda: self._all(preparation.of_others(others), len(others))
        )
        taught = distillation.teach(network, owner, [one for one in heard if one.speaking.any()])
        plan, seed = self.effort.distillation, self.effort.seed
        loss = distillation.Distillation(owner, taught, plan.batch, seed)
        self.progress.begin("learning from others")
        student = distillation.student_of(network)
        return Learner(student, plan, loss, self.work.path / "student.pt").run(self.progress.report)

    def _all(self, lessons: Iterator[Lesson], count: int) -> list[Lesson]:
        made = []
        for lesson in lessons:
            made.append(lesson)
            self.progress.report(len(made), count)
        return made


def compensate(network: Network, owner: Sequence[Lesson], share: float) -> None:
    """Give the envelopes a share of the variance that they lack, in place."""
    spoken, wanted = [], []
    for lesson in owner[:: max(1, len(owner) // _COMPENSATED_WITH)]:
        columns = crop(lesson, 0, 0, len(lesson.log_f0))
        batch = Batch(*(torch.from_numpy(column)[None] for column in columns))
        with torch.no_grad():
            cepstra, _ = network.speak(batch.content, batch.f0, batch.voicing)
        spoken.append(cepstra[0].numpy()[lesson.speaking])
        wanted.append(lesson.cepstra[lesson.speaking].astype(np.float32))
    widen(network, np.concatenate(spoken), np.concatenate(wanted), share)
