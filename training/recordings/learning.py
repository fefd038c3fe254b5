"""Trains a fresh decoder to speak the owner's envelopes; can be stopped and resumed."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.dataset import Disturbance, envelope_axis
from training.network import Network
from training.recordings.preparation import Lesson
from training.train import NEPERS_TO_DECIBELS, size_of

CROP = 160
_PAUSE_WEIGHT = 0.15
_AS_IT_IS = 0.4
_CHANGES, _VOICING = 0.35, 0.15
_SMOOTHED_FRAMES = 25
_JITTER = 0.04
_AVERAGED = 0.997
_SAVE_EVERY = 100

Report = Callable[[int, int, str], None]
"""Is told the step, how many there will be, and how it goes."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast; a step takes `batch` crops of 1.6 s."""

    steps: int = 1_600
    batch: int = 8
    rate: float = 1e-3
    flat: float = 0.4


@dataclass(frozen=True)
class Batch:
    """Crops: what the decoder is given, and what it should say."""

    content: Tensor
    f0: Tensor
    voicing: Tensor
    cepstrum: Tensor
    weight: Tensor


class Lessons:
    """Draws batches from lessons.

    Args:
        lessons: at least one.
        seed: of the draws; the same step gets the same batch, also after a break.
    """

    def __init__(self, lessons: Sequence[Lesson], seed: int) -> None:
        self._lessons = lessons
        self._seed = seed
        lengths = np.array([lesson.speaking.sum() for lesson in lessons], np.float64)
        self._shares = lengths / lengths.sum()

    def batch(self, step: int, size: int) -> Batch:
        """The crops of a step."""
        random = np.random.default_rng((self._seed, step))
        rows = []
        for index in random.choice(len(self._lessons), size, p=self._shares):
            lesson = self._lessons[index]
            is_plain = random.random() < _AS_IT_IS
            version = 0 if is_plain else int(random.integers(len(lesson.contents)))
            first = int(
                random.integers(
                    min(0, len(lesson.log_f0) - CROP), max(1, len(lesson.log_f0) - CROP + 1)
                )
            )
            rows.append(crop(lesson, version, first))
        columns = (torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))
        return Batch(*columns)


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
    """Errs about melody and voicing as the engine's pitch tracker does."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._doubt = Disturbance(seed)

    def __call__(self, batch: Batch, step: int) -> Batch:
        """The batch with a smoother melody in half of it, moved by a few percent, and doubt."""
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
        return Batch(batch.content, torch.exp(moved), doubted, batch.cepstrum, batch.weight)


class Objective(nn.Module):
    """How far envelopes, their changes and the voicing are off."""

    axis: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("axis", torch.tensor(envelope_axis(), dtype=torch.float32))

    def forward(self, network: Network, given: Batch, voiced: Tensor) -> tuple[Tensor, float]:
        """The loss, and the distance of the envelopes in dB."""
        cepstrum, logit = network.speak(given.content, given.f0, given.voicing)
        error = (cepstrum - given.cepstrum) @ self.axis
        total = given.weight.sum()
        spectrum = (size_of(error) * given.weight).sum() / total
        change = size_of(error[:, 1:] - error[:, :-1])
        changes = (change * given.weight[:, 1:]).sum() / total
        voicing = functional.binary_cross_entropy_with_logits(logit, voiced, given.weight)
        loss = spectrum + _CHANGES * changes + _VOICING * voicing
        return loss, float(spectrum.detach()) * NEPERS_TO_DECIBELS


def fresh_decoder(network: Network, lessons: Sequence[Lesson], seed: int) -> Network:
    """A network with the same encoder, and a decoder that has learnt nothing but its scales."""
    torch.manual_seed(seed)
    fresh = Network(network.size)
    shared = {
        name: value
        for name, value in network.state_dict().items()
        if name.startswith(("entry.", "encoder.", "content.", "mel_mean"))
    }
    fresh.load_state_dict(shared, strict=False)
    spoken = np.concatenate([x.cepstra[x.speaking].astype(np.float32) for x in lessons])
    fresh.cepstrum_mean.copy_(torch.from_numpy(spoken.mean(0)))
    fresh.cepstrum_spread.copy_(torch.from_numpy(spoken.std(0) + 1e-3))
    melody = np.concatenate([x.log_f0[x.log_f0 > 0] for x in lessons])
    fresh.melody_mean, fresh.melody_spread = float(np.median(melody)), float(melody.std() + 1e-3)
    nn.init.normal_(fresh.exit.weight, std=0.02)
    nn.init.zeros_(fresh.exit.bias)
    return fresh


@dataclass(frozen=True)
class Part:
    """The part of a network that a training changes.

    Attributes:
        parameters: of a network, always in the same order.
        note: tells a distance, with a place for it.
    """

    parameters: Callable[[Network], list[nn.Parameter]]
    note: str


class Learner:
    """One training, with a checkpoint in a file that is replaced as it goes on.

    Args:
        network: changed in place.
        plan: how long and how fast.
        loss: of a network at a step, with a distance to tell.
        file: the checkpoint.
        part: what is learnt; the decoder if it is left out.
    """

    def __init__(
        self,
        network: Network,
        plan: Plan,
        loss: Callable[[Network, int], tuple[Tensor, float]],
        file: Path,
        part: Part | None = None,
    ) -> None:
        self._network, self._plan, self._loss, self._file = network, plan, loss, file
        self._part = part or Part(decoder_parameters, "envelopes off by {:.2f} dB")
        self._average = copy.deepcopy(network)
        self._learnt = self._part.parameters(network)
        self._optimiser = torch.optim.AdamW(
            self._learnt, plan.rate, betas=(0.9, 0.98), weight_decay=1e-3
        )
        self._step = 0
        if file.exists():
            self._resume()

    def run(self, report: Report) -> Network:
        """Trains to the end of the plan; returns the network with averaged weights."""
        while self._step < self._plan.steps:
            distance = self._train_once()
            report(self._step, self._plan.steps, self._part.note.format(distance))
            if self._step % _SAVE_EVERY == 0 or self._step == self._plan.steps:
                self._save()
        return self._average.eval()

    def _train_once(self) -> float:
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate()
        loss, distance = self._loss(self._network, self._step)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._learnt, 1.0)
        self._optimiser.step()
        self._step += 1
        keep = min(_AVERAGED, (1 + self._step) / (10 + self._step))
        with torch.no_grad():
            pairs = zip(self._part.parameters(self._average), self._learnt, strict=True)
            for average, current in pairs:
                average.lerp_(current, 1 - keep)
        return distance

    def _rate(self) -> float:
        """Flat, then falling to nothing along a cosine."""
        share = self._step / self._plan.steps
        warm = min(1.0, (self._step + 1) / 50)
        fall = max(0.0, share - self._plan.flat) / (1 - self._plan.flat)
        return self._plan.rate * warm * (0.5 * (1 + math.cos(math.pi * fall)) + 0.005)

    def _save(self) -> None:
        partial = self._file.with_suffix(".partial")
        state = {
            "network": self._network.state_dict(), "average": self._average.state_dict(),
            "optimiser": self._optimiser.state_dict(), "step": self._step,
        }  # fmt: skip
        torch.save(state, partial)
        partial.replace(self._file)

    def _resume(self) -> None:
        saved = torch.load(self._file, weights_only=True)
        self._network.load_state_dict(saved["network"])
        self._average.load_state_dict(saved["average"])
        self._optimiser.load_state_dict(saved["optimiser"])
        self._step = saved["step"]


def decoder_parameters(network: Network) -> list[nn.Parameter]:
    """The parameters of the part that is learnt, in an order of their own."""
    parts = (network.join, network.decoder, network.exit)
    return [parameter for part in parts for parameter in part.parameters()]


def held_out_distance(network: Network, lessons: Sequence[Lesson]) -> float:
    """Mean distance of the envelopes of whole lessons in dB, weighted as in the training."""
    objective = Objective()
    distances, weights = [], []
    for lesson in lessons:
        rows = crop(lesson, 0, 0, len(lesson.log_f0))
        batch = Batch(*(torch.from_numpy(column)[None] for column in rows))
        with torch.no_grad():
            _, distance = objective(network, batch, batch.voicing)
        distances.append(distance)
        weights.append(float(batch.weight.sum()))
    return float(np.average(distances, weights=weights))
