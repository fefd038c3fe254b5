"""Trains a decoder to speak people's envelopes, the owner's above all; can be resumed."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import Scale, SpeakerVectors, begin
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

Report = Callable[[int, int, str], None]
"""Is told the step, how many there will be, and how it goes."""


@dataclass(frozen=True)
class Plan:
    """Length and rates of a training; a step takes `batch` crops of 1.6 s.

    Attributes:
        flat: the share of the steps before the rates fall.
    """

    steps: int = 600
    batch: int = 10
    rate: float = 5e-4
    vectors_rate: float = 1.5e-2
    flat: float = 0.3


@dataclass(frozen=True)
class Batch:
    """Crops: what the decoder is given, and what it should say."""

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
    """Log f0 of every frame, interpolated where nothing is voiced, float32 [T]."""
    voiced = np.flatnonzero(lesson.log_f0)
    frames = np.arange(len(lesson.log_f0))
    if not len(voiced):
        return np.full(len(frames), math.log(200.0), np.float32)
    return np.interp(frames, voiced, lesson.log_f0[voiced]).astype(np.float32)


class Disturber:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._doubt = Disturbance(seed)

    def __call__(self, batch: Batch, step: int) -> Batch:
        """The batch with doubt, noise, and a melody that is moved, and smoother in half of it."""
        random = torch.Generator().manual_seed(self._seed * 1_000_003 + step)
        self._doubt.seed(step)
        count = len(batch.f0)
        half = _SMOOTHED_FRAMES // 2
        log = torch.log(batch.f0)
        padded = functional.pad(log[:, None], (half, half), mode="replicate")
        smooth = functional.avg_pool1d(padded, _SMOOTHED_FRAMES, 1)[:, 0]
        is_smooth = torch.rand(count, 1, generator=random) < 0.5
        moved = torch.where(is_smooth, smooth, log)
        moved = moved + _JITTER * torch.randn(count, 1, generator=random)
        doubted = self._doubt.doubt(batch.voicing)
        heard = batch.content + _NOISE * torch.randn(batch.content.shape, generator=random)
        return replace(batch, content=heard, f0=torch.exp(moved), voicing=doubted)


class Objective(nn.Module):
    """Compute the error of envelopes, their changes and the voicing."""

    axis: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("axis", torch.tensor(envelope_axis(), dtype=torch.float32))

    def forward(self, voices: SpeakerVectors, given: Batch, voiced: Tensor) -> tuple[Tensor, float]:
        """The loss, and the distance of the envelopes in dB."""
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
    """The speaker's scale of envelopes and pitch."""
    spoken = np.concatenate([x.cepstra[x.speaking].astype(np.float32) for x in lessons])
    melody = np.concatenate([x.log_f0[x.log_f0 > 0] for x in lessons])
    middle, width = float(np.median(melody)), float(melody.std() + 1e-3)
    return Scale(spoken.mean(0), spoken.std(0) + np.float32(1e-3), (middle, width))


class Learner:
    """One training, with a checkpoint in a file that is replaced as it goes on.

    Args:
        loss: of the voices at a step, with the distance of the envelopes in dB.
    """

    def __init__(
        self,
        voices: SpeakerVectors,
        plan: Plan,
        loss: Callable[[SpeakerVectors, int], tuple[Tensor, float]],
        file: Path,
    ) -> None:
        self._voices, self._plan, self._loss, self._file = voices, plan, loss, file
        self._average = copy.deepcopy(voices)
        shared = [each for each in voices.parameters() if each is not voices.vectors]
        self._rates = (plan.rate, plan.vectors_rate)
        self._optimiser = torch.optim.AdamW(
            [{"params": shared}, {"params": [voices.vectors], "weight_decay": 0.0}],
            betas=(0.9, 0.98), weight_decay=1e-3,
        )  # fmt: skip
        self._step = 0
        if file.exists():
            self._resume()

    def run(self, report: Report) -> SpeakerVectors:
        while self._step < self._plan.steps:
            distance = self._train_once()
            report(self._step, self._plan.steps, f"envelopes off by {distance:.2f} dB")
            if self._step % _SAVE_EVERY == 0 or self._step == self._plan.steps:
                self._save()
        return self._average.eval()

    def _train_once(self) -> float:
        for group, rate in zip(self._optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * self._share_of_rate()
        loss, distance = self._loss(self._voices, self._step)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._voices.parameters(), 1.0)
        self._optimiser.step()
        self._step += 1
        keep = min(_AVERAGED, (1 + self._step) / (10 + self._step))
        with torch.no_grad():
            pairs = zip(self._average.parameters(), self._voices.parameters(), strict=True)
            for average, current in pairs:
                average.lerp_(current, 1 - keep)
        return distance

    def _share_of_rate(self) -> float:
        share = self._step / self._plan.steps
        warm = min(1.0, (self._step + 1) / 50)
        fall = max(0.0, share - self._plan.flat) / (1 - self._plan.flat)
        return warm * (0.5 * (1 + math.cos(math.pi * fall)) + 0.005)

    def _save(self) -> None:
        partial = self._file.with_suffix(".partial")
        state = {
            "voices": self._voices.state_dict(), "average": self._average.state_dict(),
            "optimiser": self._optimiser.state_dict(), "step": self._step,
        }  # fmt: skip
        torch.save(state, partial)
        partial.replace(self._file)

    def _resume(self) -> None:
        saved = torch.load(self._file, weights_only=True)
        self._voices.load_state_dict(saved["voices"])
        self._average.load_state_dict(saved["average"])
        self._optimiser.load_state_dict(saved["optimiser"])
        self._step = saved["step"]


def held_out_distance(voices: SpeakerVectors, lessons: Sequence[Lesson], who: int = 0) -> float:
    """Mean distance of the envelopes of whole lessons in dB, weighted as in the training."""
    objective = Objective()
    distances, weights = [], []
    for lesson in lessons:
        batch = whole(lesson, who)
        with torch.no_grad():
            _, distance = objective(voices, batch, batch.voicing)
        distances.append(distance)
        weights.append(float(batch.weight.sum()))
    return float(np.average(distances, weights=weights))


def whole(lesson: Lesson, who: int = 0) -> Batch:
    columns = crop(lesson, 0, 0, len(lesson.log_f0))
    return Batch(*[torch.from_numpy(column)[None] for column in columns] + [torch.tensor([who])])


_COMPENSATED_WITH = 150
_VERSIONS_OF_OTHERS, _HARSH_VERSIONS_OF_OTHERS = 1, 3
_OWNER = "owner"


@dataclass(frozen=True)
class Material:
    owner: Sequence[Utterance]
    others: Mapping[str, Sequence[Utterance]]


@dataclass(frozen=True)
class TrainingEffort:
    """Amounts of a training.

    Attributes:
        compensated: the share of the variance that lacks at the end, and is given back.
    """

    plan: Plan = field(default_factory=Plan)
    seed: int = 1
    owner_share: float = 0.6
    is_harsh: bool = False
    compensated: float = 0.8

    def quick(self) -> "TrainingEffort":
        """A hundredth of it, to try the path."""
        return replace(self, plan=replace(self.plan, steps=20))


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

    def run(self, material: Material) -> TrainedDecoder:
        torch.set_num_threads(1)
        owner = self.prepare(material.owner)
        versions = _HARSH_VERSIONS_OF_OTHERS if self.effort.is_harsh else _VERSIONS_OF_OTHERS
        others = self.prepare_others(material.others, versions)
        network = self.learn(owner, others).alone(0)
        compensate(network, owner, self.effort.compensated)
        melody = np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in owner])
        return TrainedDecoder(network, Melody.of(melody))

    def prepare(self, utterances: Sequence[Utterance]) -> list[Lesson]:
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

    def learn(
        self,
        owner: Sequence[Lesson],
        others: Mapping[str, Sequence[Lesson]],
    ) -> SpeakerVectors:
        """Voices of which the first is the owner's, from what an average speaker's begins as."""
        people = {_OWNER: owner, **others}
        share = self.effort.owner_share
        shares = [share] + [(1 - share) / max(len(others), 1)] * len(others)
        voices = begin({name: scale_of(one) for name, one in people.items()})
        lessons = Lessons([owner, *others.values()], shares, self.effort.seed)
        return self.teach(voices, lessons)

    def teach(self, voices: SpeakerVectors, lessons: Lessons) -> SpeakerVectors:
        """Train voices, in place, with what is drawn from lessons; goes on where it stopped."""
        disturb, objective = Disturber(self.effort.seed), Objective()

        def loss(voices: SpeakerVectors, step: int) -> tuple[Tensor, float]:
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
