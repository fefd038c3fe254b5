"""Teaches an encoder to hear everybody as it hears the owner.

The content still tells who speaks. Replacing each frame of somebody else's content by the mean of
its nearest frames of the owner's makes a stranger sound much more like the owner (M. Baas, B. van
Niekerk and H. Kamper, "Voice conversion with just nearest neighbors", Interspeech 2023), but the
search is too slow for serving. So the encoder learns to give the answer of the search itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.dataset import Disturbance
from training.features import Floats
from training.network import Network
from training.recordings.learning import CROP, Plan
from training.recordings.preparation import Lesson

NEIGHBOURS = 8
PLAN = Plan(steps=400, rate=4e-4, flat=0.2)
_OWNER_SHARE = 0.25
_AS_IT_IS = 0.4
_PAUSE_WEIGHT = 0.1
# So many frames at a crop's ends are heard without what lies beyond it, and do not count.
_EDGE = 16
_BANK_FRAMES = 30_000
_BLOCK = 512


@dataclass(frozen=True)
class Hearing:
    """One utterance as the encoder learns to hear it.

    Attributes:
        mels: what the encoder is given, float16 [T, 80] each.
        content: what it should make of it, float16 [T, 64].
        speaking: bool [T].
    """

    mels: Sequence[NDArray[np.float16]]
    content: NDArray[np.float16]
    speaking: NDArray[np.bool_]


def nearest_of_owner(owner: Sequence[Lesson], others: Sequence[Lesson]) -> list[Hearing]:
    """What the encoder should hear in other people: the nearest that the owner says."""
    bank = _bank(owner)
    sizes = (bank * bank).sum(1)
    answers = []
    for lesson in others:
        heard = torch.from_numpy(lesson.contents[0].astype(np.float32))
        nearest = torch.cat([_nearest(part, bank, sizes) for part in heard.split(_BLOCK)])
        content = nearest.numpy().astype(np.float16)
        answers.append(Hearing(lesson.mels, content, lesson.speaking))
    return answers


def as_before(owner: Sequence[Lesson]) -> list[Hearing]:
    """What the encoder should hear in the owner: what it has always heard."""
    return [Hearing(one.mels, one.contents[0], one.speaking) for one in owner]


def _bank(lessons: Sequence[Lesson]) -> Tensor:
    """The content of the owner's speech, float32 [frames, 64]."""
    frames = np.concatenate([lesson.contents[0][lesson.speaking] for lesson in lessons])
    step = max(1, -(-len(frames) // _BANK_FRAMES))
    return torch.from_numpy(frames[::step].astype(np.float32))


def _nearest(content: Tensor, bank: Tensor, sizes: Tensor) -> Tensor:
    """The mean of the nearest frames of the bank for each frame of content [frames, 64]."""
    distances = sizes - 2 * content @ bank.T
    return bank[distances.topk(NEIGHBOURS, largest=False).indices].mean(1)


class HearingLoss:
    """The loss of a step: how far the content is from what it should be.

    Every direction of the content counts with the root of the variance that it has in the owner's
    speech, so that neither the few loud directions nor the noise in the weak ones decide.

    Args:
        owner: what should be heard in the owner.
        others: what should be heard in others.
        batch: crops of a step.
        seed: of the draws.
    """

    def __init__(
        self, owner: Sequence[Hearing], others: Sequence[Hearing], batch: int, seed: int
    ) -> None:
        self._owner, self._others = owner, others
        self._batch, self._seed = batch, seed
        self._scale = _scale(owner)
        self._tracts = Disturbance(seed)

    def __call__(self, network: Network, step: int) -> tuple[Tensor, float]:
        """The loss, and the same as a share of the variance of the owner's content."""
        random = np.random.default_rng((self._seed, step))
        rows = [self._row(random, index) for index in range(self._batch)]
        mel, content, weight = (
            torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
        )
        self._tracts.seed(step)
        heard = network.hear(self._tracts.tract(mel)).transpose(1, 2)
        distance = ((heard - content) @ self._scale).pow(2).sum(-1)
        loss = (distance * weight).sum() / weight.sum().clamp_min(1.0)
        return loss, float(loss.detach())

    def _row(self, random: np.random.Generator, index: int) -> tuple[Floats, Floats, Floats]:
        is_owner = index < self._batch * _OWNER_SHARE
        pool = self._owner if is_owner else self._others
        one = pool[int(random.integers(len(pool)))]
        is_plain = random.random() < _AS_IT_IS
        mel = one.mels[0 if is_plain else int(random.integers(len(one.mels)))]
        last = max(0, len(mel) - CROP)
        first = int(random.integers(last + 1))
        wanted = np.arange(first, first + CROP)
        inside = wanted < len(mel)
        at = np.minimum(wanted, len(mel) - 1)
        weight = np.where(one.speaking[at], 1.0, _PAUSE_WEIGHT) * inside
        weight[: _EDGE if first else 0] = 0
        weight[CROP - (_EDGE if first < last else 0) :] = 0
        return (
            mel[at].astype(np.float32), one.content[at].astype(np.float32),
            weight.astype(np.float32),
        )  # fmt: skip


def _scale(owner: Sequence[Hearing]) -> Tensor:
    """A matrix [64, 64] that gives the directions of the owner's content their weights."""
    spoken = np.concatenate([one.content[one.speaking] for one in owner]).astype(np.float64)
    variances, directions = np.linalg.eigh(np.cov(spoken.T))
    variances = np.maximum(variances, 1e-6 * variances.max())
    scaled = directions * variances**-0.25 / np.sqrt(np.sqrt(variances).sum())
    return torch.from_numpy(scaled.astype(np.float32))


def encoder_parameters(network: Network) -> list[nn.Parameter]:
    """The parameters of the part that hears, in an order of their own."""
    parts = (network.entry, network.encoder, network.content)
    return [parameter for part in parts for parameter in part.parameters()]
