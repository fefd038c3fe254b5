"""Trains a decoder to speak people's envelopes, the owner's above all; can be resumed."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import Scale, SpeakerVectors, begin
from tools.training.decoder.checkpoint import Checkpoint, approach
from tools.training.decoder.disturbance import Disturbance
from tools.training.decoder.export import Melody
from tools.training.decoder.network import Network
from tools.training.decoder.spectrum import NEPERS_TO_DECIBELS, envelope_axis, size_of, widen
from tools.training.recordings.lessons import Lesson, Preparation, joined
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import TrainingProgress, WorkFolder

CROP = 160
_PAUSE_WEIGHT = 0.15
_AS_IT_IS = 0.4
_CHANGES, _VOICING = 0.35, 0.15
_SMOOTHED_FRAMES = 25
_JITTER = 0.04
_NOISE = 0.07
_AVERAGED = 0.997
_SAVE_EVERY = 100


@dataclass(frozen=True)
class Plan:
    """Length and rates of a training by crops of 1.6 s; `flat` is a share of the steps."""

    steps: int = 600
    batch: int = 10
    rate: float = 5e-4
    vectors_rate: float = 1.5e-2
    flat: float = 0.3

    def share_of_rate(self, step: int) -> float:
        """Rise for 50 steps, stay, then fall to nothing along a cosine."""
        fall = max(0.0, step / self.steps - self.flat) / (1 - self.flat)
        return min(1.0, (step + 1) / 50) * (0.5 * (1 + math.cos(math.pi * fall)) + 0.005)


@dataclass(frozen=True)
class Batch:
    content: Tensor
    f0: Tensor
    voicing: Tensor
    cepstrum: Tensor
    weight: Tensor
    who: Tensor


class Lessons:
    def __init__(
        self, people: Sequence[Sequence[Lesson]], shares: Sequence[float], seed: int
    ) -> None:
        self._people = people
        self._shares = np.array(shares) / sum(shares)
        self._seed = seed
        lengths = [np.array([x.speaking.sum() for x in one], np.float64) for one in people]
        self._lengths = [length / length.sum() for length in lengths]

    def batch(self, step: int, size: int) -> Batch:
        random = np.random.default_rng((self._seed, step))
        drawn = random.choice(len(self._people), size, p=self._shares)
        rows = [self._crop(int(who), random) for who in drawn]
        columns = [torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)]
        return Batch(*[*columns, torch.from_numpy(drawn)])

    def _crop(self, who: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        lessons = self._people[who]
        lesson = lessons[random.choice(len(lessons), p=self._lengths[who])]
        is_plain = random.random() < _AS_IT_IS
        version = 0 if is_plain else int(random.integers(len(lesson.contents)))
        spare = len(lesson.log_f0) - CROP
        first = int(random.integers(min(0, spare), max(1, spare + 1)))
        return crop(lesson, version, first)


def crop(lesson: Lesson, version: int, first: int, frames: int = CROP) -> tuple[np.ndarray, ...]:
    """Frames of a lesson, from `first` on; beyond its ends they are repeated and do not count."""
    wanted = np.arange(first, first + frames)
    index = np.clip(wanted, 0, len(lesson.log_f0) - 1)
    inside = (wanted == index).astype(np.float32)
    weight = np.where(lesson.speaking[index], 1.0, _PAUSE_WEIGHT).astype(np.float32) * inside
    voiced = (lesson.log_f0[index] > 0).astype(np.float32) * inside
    return (
        lesson.contents[version][index].T.astype(np.float32), np.exp(contour(lesson))[index],
        voiced, lesson.cepstra[index].astype(np.float32), weight,
    )  # fmt: skip


def contour(lesson: Lesson) -> np.ndarray:
    voiced = np.flatnonzero(lesson.log_f0)
    frames = np.arange(len(lesson.log_f0))
    if not len(voiced):
        return np.full(len(frames), math.log(200.0), np.float32)
    return np.interp(frames, voiced, lesson.log_f0[voiced]).astype(np.float32)


def disturbed(batch: Batch, step: int, seed: int) -> Batch:
    """Move the melody, smooth half of it, and doubt the voicing, as the engine's tracker errs."""
    random = torch.Generator().manual_seed(seed * 1_000_003 + step)
    count = len(batch.f0)
    half = _SMOOTHED_FRAMES // 2
    log = torch.log(batch.f0)
    padded = functional.pad(log[:, None], (half, half), mode="replicate")
    smooth = functional.avg_pool1d(padded, _SMOOTHED_FRAMES, 1)[:, 0]
    is_smooth = torch.rand(count, 1, generator=random) < 0.5
    moved = torch.where(is_smooth, smooth, log)
    moved = moved + _JITTER * torch.randn(count, 1, generator=random)
    heard = batch.content + _NOISE * torch.randn(batch.content.shape, generator=random)
    doubted = Disturbance(step).doubt(batch.voicing)
    return replace(batch, content=heard, f0=torch.exp(moved), voicing=doubted)


class Objective(nn.Module):
    axis: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("axis", torch.tensor(envelope_axis(), dtype=torch.float32))

    def forward(self, voices: SpeakerVectors, given: Batch, voiced: Tensor) -> tuple[Tensor, float]:
        cepstrum, logit = voices.speak(given.content, given.f0, given.voicing, given.who)
        error = (cepstrum - given.cepstrum) @ self.axis
        total = given.weight.sum()
        spectrum = (size_of(error) * given.weight).sum() / total
        change = size_of(error[:, 1:] - error[:, :-1])
        changes = (change * given.weight[:, 1:]).sum() / total
        voicing = functional.binary_cross_entropy_with_logits(logit, voiced, given.weight)
        loss = spectrum + _CHANGES * changes + _VOICING * voicing
        return loss, float(spectrum.detach()) * NEPERS_TO_DECIBELS


def scale_of(lessons: Sequence[Lesson]) -> Scale:
    spoken = np.concatenate([x.cepstra[x.speaking].astype(np.float32) for x in lessons])
    melody = np.concatenate([x.log_f0[x.log_f0 > 0] for x in lessons])
    middle, width = float(np.median(melody)), float(melody.std() + 1e-3)
    return Scale(spoken.mean(0), spoken.std(0) + np.float32(1e-3), (middle, width))


def whole(lesson: Lesson, who: int = 0) -> Batch:
    columns = crop(lesson, 0, 0, len(lesson.log_f0))
    return Batch(*[torch.from_numpy(column)[None] for column in columns] + [torch.tensor([who])])


_COMPENSATED_WITH = 150
_VERSIONS_OF_OTHERS, _HARSH_VERSIONS_OF_OTHERS = 1, 3


@dataclass(frozen=True)
class TrainingEffort:
    """Amounts of a training; `compensated` is the share of the lost variance that is given back."""

    plan: Plan = field(default_factory=Plan)
    seed: int = 1
    owner_share: float = 0.6
    is_harsh: bool = False
    compensated: float = 0.8


@dataclass(frozen=True)
class TrainedDecoder:
    network: Network
    melody: Melody


@dataclass(frozen=True)
class Training:
    ear: SharedEncoder
    effort: TrainingEffort
    work: WorkFolder
    progress: TrainingProgress

    def run(
        self, owner: Sequence[Utterance], others: Mapping[str, Sequence[Utterance]]
    ) -> TrainedDecoder:
        torch.set_num_threads(1)
        self.progress.begin("preparing")
        rows = joined(owner)
        preparation = Preparation(self.ear, self.effort.seed, is_harsh=self.effort.is_harsh)

        def made() -> list[Lesson]:
            lessons = []
            for lesson in preparation.of(rows):
                lessons.append(lesson)
                self.progress.report(len(lessons), len(rows))
            return lessons

        own = useful(self.work.kept("lessons", made))
        versions = _HARSH_VERSIONS_OF_OTHERS if self.effort.is_harsh else _VERSIONS_OF_OTHERS
        people = {"owner": own, **self.prepare_others(others, versions)}
        share = self.effort.owner_share
        shares = [share] + [(1 - share) / max(len(people) - 1, 1)] * (len(people) - 1)
        voices = begin({name: scale_of(one) for name, one in people.items()})
        lessons = Lessons(list(people.values()), shares, self.effort.seed)
        network = self.teach(voices, lessons).alone(0)
        compensate(network, own, self.effort.compensated)
        melody = np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in own])
        return TrainedDecoder(network, Melody.of(melody))

    def prepare_others(
        self, people: Mapping[str, Sequence[Utterance]], versions: int
    ) -> dict[str, list[Lesson]]:
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
        found = {name: useful(one) for name, one in lessons.items()}
        return {name: one for name, one in found.items() if one}

    def teach(self, voices: SpeakerVectors, lessons: Lessons) -> SpeakerVectors:
        """Train voices, in place, and return their average; go on from the last checkpoint."""
        plan, objective, average = self.effort.plan, Objective(), copy.deepcopy(voices)
        shared = [each for each in voices.parameters() if each is not voices.vectors]
        groups = [{"params": shared}, {"params": [voices.vectors], "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=1e-3)
        parts = {"voices": voices, "average": average, "optimiser": optimiser}
        checkpoint = Checkpoint(self.work.path / "learner.pt", parts)
        self.progress.begin("learning the voice")
        for step in range(checkpoint.resume(), plan.steps):
            for group, rate in zip(
                optimiser.param_groups, (plan.rate, plan.vectors_rate), strict=True
            ):
                group["lr"] = rate * plan.share_of_rate(step)
            batch = lessons.batch(step, plan.batch)
            given = disturbed(batch, step, self.effort.seed)
            loss, distance = objective(voices, given, batch.voicing)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(voices.parameters(), 1.0)
            optimiser.step()
            done = step + 1
            approach(average, voices, min(_AVERAGED, (1 + done) / (10 + done)))
            self.progress.report(done, plan.steps, f"envelopes off by {distance:.2f} dB")
            if done % _SAVE_EVERY == 0 or done == plan.steps:
                checkpoint.save(done)
        return average.eval()


def useful(lessons: Sequence[Lesson]) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.speaking.any() and lesson.log_f0.any()]


def compensate(network: Network, owner: Sequence[Lesson], share: float) -> None:
    spoken, wanted = [], []
    for lesson in owner[:: max(1, len(owner) // _COMPENSATED_WITH)]:
        batch = whole(lesson)
        with torch.no_grad():
            cepstra, _ = network.speak(batch.content, batch.f0, batch.voicing)
        spoken.append(cepstra[0].numpy()[lesson.speaking])
        wanted.append(lesson.cepstra[lesson.speaking].astype(np.float32))
    widen(network, np.concatenate(spoken), np.concatenate(wanted), share)
