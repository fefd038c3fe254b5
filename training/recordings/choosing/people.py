"""Tells the owner's voice from those of other people, as a speaker encoder hears them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from speech.signal.samples import resample
from training.quality.similarity import Embedding
from training.recordings.choosing.screening import Utterance
from training.sound.features import RATE, Floats

GROUP_SECONDS = 3.0
_SAME_PERSON = 0.66
OWNER_LIKENESS = 0.78
"""The least cosine of 3 s of speech and the mean of its speaker."""
_LESS_PER_SECOND = 0.04
_SECOND_SHARE = 0.2
_SECOND_SECONDS = 15.0


@dataclass(frozen=True)
class People:
    """Who speaks.

    Attributes:
        owner: whether each utterance is in the voice that is heard most, bool [utterances].
        second_share: share of the time of the voice that is heard most beside it, if that is
            enough to doubt whose the recordings are; otherwise 0.
    """

    owner: NDArray[np.bool_]
    second_share: float


def tell_apart(utterances: Sequence[Utterance], encoder: Embedding) -> People:
    """Group utterances by voice.

    3 s of one person and that person's mean have a cosine of at least 0.82, 3 s of somebody else
    of at most 0.81 (13 people, the nearest of the same sex and language).

    Args:
        utterances: at least one.
        encoder: gives the embeddings.
    """
    groups = list(_groups(utterances))
    embeddings = np.stack([encoder.embed(_joined(utterances, group)) for group in groups])
    seconds = np.array([sum(utterances[i].seconds for i in group) for group in groups])
    voices = _cluster(embeddings)
    totals = np.bincount(voices, weights=seconds)
    centre = embeddings[voices == totals.argmax()].mean(0)
    # Short words say less about who speaks them.
    wanted = OWNER_LIKENESS - _LESS_PER_SECOND * np.maximum(GROUP_SECONDS - seconds, 0)
    is_owner = embeddings @ (centre / np.linalg.norm(centre)) >= wanted
    others = np.bincount(voices[~is_owner], weights=seconds[~is_owner], minlength=1)
    second = float(others.max(initial=0.0))
    doubtful = second >= _SECOND_SECONDS and second >= _SECOND_SHARE * seconds.sum()
    owner = np.zeros(len(utterances), np.bool_)
    for group, is_theirs in zip(groups, is_owner, strict=True):
        owner[group] = is_theirs
    return People(owner, second / float(seconds.sum()) if doubtful else 0.0)


def _groups(utterances: Sequence[Utterance]) -> Iterator[list[int]]:
    """Utterances that follow each other in a file, joined until they last 3 s."""
    group: list[int] = []
    seconds = 0.0
    for index, utterance in enumerate(utterances):
        if group and utterances[group[-1]].file != utterance.file and seconds >= 1:
            yield group
            group, seconds = [], 0.0
        group.append(index)
        seconds += utterance.seconds
        if seconds >= GROUP_SECONDS:
            yield group
            group, seconds = [], 0.0
    if group:
        yield group


def _joined(utterances: Sequence[Utterance], group: list[int]) -> Floats:
    waves = [resample(utterances[i].samples, utterances[i].rate, RATE) for i in group]
    return np.concatenate(waves)


def _cluster(embeddings: NDArray[np.float32]) -> NDArray[np.intp]:
    """The number of each embedding's voice, from 0."""
    if len(embeddings) < 2:
        return np.zeros(len(embeddings), np.intp)
    tree = linkage(embeddings, "average", metric="cosine")
    clusters: NDArray[np.intp] = fcluster(tree, 1 - _SAME_PERSON, "distance") - 1
    return clusters
