"""Teaches a decoder to speak what it hears from others as it speaks what it hears from its owner.

The content still tells who speaks. A slow teacher hears only the owner: each frame of somebody
else's content is replaced by the mean of its nearest frames of the owner's (M. Baas, B. van Niekerk
and H. Kamper, "Voice conversion with just nearest neighbors", Interspeech 2023). The decoder learns
to give the teacher's answer without the search, from the content as it is.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from training.network import Network
from training.recordings.learning import Batch, Disturber, Lessons, Objective, Plan, contour
from training.recordings.preparation import Lesson

NEIGHBOURS = 8
SHARE = 0.7
PLAN = Plan(steps=700, rate=5e-4, flat=0.0)
_BANK_FRAMES = 30_000
_BLOCK = 512


def teach(network: Network, owner: Sequence[Lesson], others: Sequence[Lesson]) -> list[Lesson]:
    """Lessons of other people with the envelopes that the owner would speak.

    Args:
        network: a trained decoder of the owner.
        owner: the lessons that it was trained with.
        others: what else is heard; speakers are moved to the owner's register.
    """
    bank = _bank(owner)
    sizes = (bank * bank).sum(1)
    lessons = []
    for lesson in others:
        heard = torch.from_numpy(lesson.contents[0].astype(np.float32))
        nearest = torch.cat([_nearest(part, bank, sizes) for part in heard.split(_BLOCK)])
        log_f0 = _moved(lesson, network.melody_mean)
        moved = replace(lesson, log_f0=log_f0)
        f0 = torch.from_numpy(np.exp(contour(moved)))[None]
        voicing = torch.from_numpy((log_f0 > 0).astype(np.float32))[None]
        with torch.no_grad():
            cepstrum, _ = network.speak(nearest.T[None], f0, voicing)
        lessons.append(replace(moved, cepstra=cepstrum[0].numpy().astype(np.float16)))
    return lessons


def _bank(lessons: Sequence[Lesson]) -> Tensor:
    """The content of the owner's speech, float32 [frames, 64]."""
    frames = np.concatenate([lesson.contents[0][lesson.speaking] for lesson in lessons])
    step = max(1, -(-len(frames) // _BANK_FRAMES))
    return torch.from_numpy(frames[::step].astype(np.float32))


def _nearest(content: Tensor, bank: Tensor, sizes: Tensor) -> Tensor:
    """The mean of the nearest frames of the bank for each frame of content [frames, 64]."""
    distances = sizes - 2 * content @ bank.T
    return bank[distances.topk(NEIGHBOURS, largest=False).indices].mean(1)


def _moved(lesson: Lesson, register: float) -> np.ndarray:
    """The melody around the owner's median, 0 where unvoiced."""
    voiced = lesson.log_f0 > 0
    if not voiced.any():
        return lesson.log_f0
    moved = lesson.log_f0 - np.median(lesson.log_f0[voiced]) + register
    return np.where(voiced, moved, 0).astype(np.float32)


class Distillation:
    """The loss of a step: the owner's own envelopes, and the teacher's of other people.

    Args:
        owner: the owner's lessons.
        taught: those of others, with the teacher's answers.
        batch: crops of each.
        seed: of the draws.
    """

    def __init__(
        self, owner: Sequence[Lesson], taught: Sequence[Lesson], batch: int, seed: int
    ) -> None:
        self._owner, self._taught = Lessons(owner, seed), Lessons(taught, seed + 1)
        self._batch = batch
        self._disturb, self._objective = Disturber(seed), Objective()

    def __call__(self, network: Network, step: int) -> tuple[Tensor, float]:
        """The loss, and the distance of the owner's envelopes in dB."""
        own, distance = self._loss(network, self._owner.batch(step, self._batch), step)
        taught, _ = self._loss(network, self._taught.batch(step, self._batch), step)
        return own + SHARE * taught, distance

    def _loss(self, network: Network, batch: Batch, step: int) -> tuple[Tensor, float]:
        loss: tuple[Tensor, float] = self._objective(
            network, self._disturb(batch, step), batch.voicing
        )
        return loss


def student_of(network: Network) -> Network:
    """A copy that goes on from the teacher's weights."""
    return copy.deepcopy(network).train().requires_grad_(requires_grad=True)
