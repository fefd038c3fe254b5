"""From chosen utterances to a trained decoder, in stages that are kept."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from training.export import Melody
from training.network import Network
from training.recordings import hearing
from training.recordings.hearing import HearingLoss, as_before, encoder_parameters, nearest_of_owner
from training.recordings.learning import (
    Batch,
    Disturber,
    Learner,
    Lessons,
    Objective,
    Part,
    Plan,
    crop,
    fresh_decoder,
)
from training.recordings.preparation import Lesson, Preparation, heard_by
from training.recordings.progress import Progress
from training.recordings.screening import Utterance
from training.recordings.work import WorkFolder
from training.variance import widen

_COMPENSATED = 0.8
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
        hearing: of the encoder, if there are others.
        seed: of everything that is drawn.
    """

    plan: Plan = field(default_factory=Plan)
    hearing: Plan = hearing.PLAN
    seed: int = 1

    def quick(self) -> "Effort":
        """A hundredth of it, to try the path."""
        return replace(
            self,
            plan=replace(self.plan, steps=20),
            hearing=replace(self.hearing, steps=10),
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
        base = self.base
        if material.others:
            base = self.learn_to_hear(owner, material.others)
            owner = heard_by(base, owner)
        network = self.learn(base, owner)
        compensate(network, owner, _COMPENSATED)
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

    def learn_to_hear(self, owner: Sequence[Lesson], others: Sequence[Utterance]) -> Network:
        """A network whose encoder hears others as it hears the owner."""
        self.progress.begin("hearing others")
        seed, plan = self.effort.seed, self.effort.hearing
        preparation = Preparation(self.base, seed + 1, _VERSIONS_OF_OTHERS)
        heard = self.work.kept(
            "others", lambda: self._all(preparation.of_others(others), len(others))
        )
        answers = nearest_of_owner(owner, [one for one in heard if one.speaking.any()])
        loss = HearingLoss(as_before(owner), answers, plan.batch, seed)
        self.progress.begin("learning to ignore who speaks")
        network = copy.deepcopy(self.base).train().requires_grad_(requires_grad=True)
        part = Part(encoder_parameters, "{:.0%} of the content is wrong")
        learner = Learner(network, plan, loss, self.work.path / "hearing.pt", part)
        return learner.run(self.progress.report)

    def learn(self, base: Network, owner: Sequence[Lesson]) -> Network:
        """A decoder that speaks the owner's envelopes from what the base's encoder hears."""
        seed = self.effort.seed
        lessons, disturb, objective = Lessons(owner, seed), Disturber(seed), Objective()

        def loss(network: Network, step: int) -> tuple[Tensor, float]:
            batch = lessons.batch(step, self.effort.plan.batch)
            result: tuple[Tensor, float] = objective(network, disturb(batch, step), batch.voicing)
            return result

        self.progress.begin("learning the voice")
        network = fresh_decoder(base, owner, seed)
        learner = Learner(network, self.effort.plan, loss, self.work.path / "learner.pt")
        return learner.run(self.progress.report)

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
