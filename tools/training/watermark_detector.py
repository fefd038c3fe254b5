"""Teaches the detector of the watermark: a few minutes on one processor.

    python -m tools.training.watermark_detector [--rounds N]

Every second reader of `tools/training/people` is converted by the characters of the repository.
Their conversions are marked with keys drawn at random and damaged: noise, codecs, rooms. The
network is written beside the detector. docs/provenance.md has the trials with the other readers.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.signal
import torch
from torch import nn

from shared.speech.results.watermark import BANDS, PERIOD, SHORTEST_KEY, Watermark, WatermarkKey
from shared.speech.results.watermark_detection import (
    CHIP_FRAMES,
    WEIGHTS,
    DecisionWeights,
    features,
    powers,
)
from tools.training.decoder import disturbance
from tools.training.decoder.features import HOP, RATE, Floats, read_speech
from tools.training.judges.converter import BundleConverter

CHIPS = 95
_FARTHEST = HOP // 2
_SECONDS = 4.0


class WatermarkLessons(NamedTuple):
    """Features of marked sounds, [N, CHIPS CHIP_FRAMES, BANDS, 2], and their marks, -1 or 1."""

    heard: Floats
    signs: npt.NDArray[np.int8]


@dataclass(frozen=True)
class MarkedSpeech:
    wave: Floats
    sample_rate: int


def make(
    spoken: Sequence[MarkedSpeech], each: int, random: np.random.Generator
) -> WatermarkLessons:
    made = [lesson_of(speech, random) for speech in spoken for _ in range(each)]
    return WatermarkLessons(
        np.stack([heard for heard, _ in made]), np.stack([signs for _, signs in made])
    )


def lesson_of(
    speech: MarkedSpeech, random: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.int8]]:
    count = round(_SECONDS * speech.sample_rate)
    begin = int(random.integers(0, max(1, len(speech.wave) - count)))
    wave = np.resize(speech.wave[begin : begin + count], count)
    key, payload = WatermarkKey(random.bytes(SHORTEST_KEY)), int(random.integers(1 << 16))
    seed = int(random.integers(1 << 31))
    marked = Watermark(key, payload, speech.sample_rate).mark(wave, seed)
    # A weaker mark, too: in places there is less of it than elsewhere.
    part = random.uniform(0.5, 1.0)
    heard = damaged(wave + part * (marked - wave), speech.sample_rate, random)
    chips = (key.first_chip(seed) + np.arange(CHIPS)) % PERIOD
    signs = np.asarray(key.pattern(payload)[chips], np.int8)
    return features(powers(heard)[: CHIPS * CHIP_FRAMES]), signs


def damaged(wave: Floats, rate: int, random: np.random.Generator) -> Floats:
    """Return it at RATE after a way to those who check it, at most half a frame late or early."""
    sound = scipy.signal.resample_poly(wave, RATE, rate).astype(np.float32)
    way = random.random()
    if way < 0.5:
        level = np.sqrt(np.square(sound).mean()) * 10 ** (-random.uniform(15, 26) / 20)
        sound = sound + level * random.standard_normal(len(sound))
    elif way < 0.65:
        sound = disturbance.codec(sound, random)
    elif way < 0.8:
        sound = disturbance.room(sound, random)
    shift = int(random.integers(-_FARTHEST, _FARTHEST + 1))
    return np.asarray(np.roll(sound, shift), np.float32)


_HIDDEN = 16
_BATCH = 12
_FASTEST = 4e-3
_AGREEING = 4e-3


class Decider(nn.Module):
    """Hears features, [N, T, BANDS, 2], and decides, [N, T / CHIP_FRAMES, BANDS]."""

    def __init__(self) -> None:
        super().__init__()
        long = 3 * CHIP_FRAMES
        self._chips = nn.Conv2d(
            2, _HIDDEN, (long, 5), stride=(CHIP_FRAMES, 1), padding=(CHIP_FRAMES, 2), bias=False
        )
        self._bands = nn.Parameter(torch.zeros(_HIDDEN, 1, BANDS))
        self._around = nn.Conv2d(_HIDDEN, _HIDDEN, 3, padding=1)
        self._decision = nn.Conv2d(_HIDDEN, 1, 1)

    def forward(self, heard: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self._chips(heard.permute(0, 3, 1, 2)) + self._bands)
        decided: torch.Tensor = self._decision(torch.relu(self._around(hidden)))
        return decided[:, 0]

    def weights(self) -> DecisionWeights:
        return DecisionWeights(
            chips=as_array(self._chips.weight.permute(2, 3, 1, 0)),
            bands=as_array(self._bands[:, 0].T),
            around=as_array(self._around.weight.permute(2, 3, 1, 0)),
            around_bias=as_array(self._around.bias),
            decision=as_array(self._decision.weight[0, :, 0, 0]),
            decision_bias=as_array(self._decision.bias[0]),
        )


def as_array(learned: torch.Tensor | None) -> Floats:
    return np.asarray(cast("torch.Tensor", learned).detach().numpy(), np.float32)


def learn(
    lessons: WatermarkLessons, rounds: int, report: Callable[[int, float], None], seed: int = 0
) -> Decider:
    """Learn from all lessons, so many times; the seed is of the beginning and the order."""
    torch.manual_seed(seed)
    decider = Decider()
    heard, signs = torch.from_numpy(lessons.heard), torch.from_numpy(lessons.signs).float()
    count = len(heard) // _BATCH * _BATCH
    optimizer = torch.optim.Adam(decider.parameters())
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, _FASTEST, total_steps=rounds * count // _BATCH
    )
    for number in range(rounds):
        agreed = []
        for batch in torch.randperm(len(heard))[:count].view(-1, _BATCH):
            decided = decider(heard[batch])
            # How well a sound's decisions agree with its signs, as the detector counts.
            agreed_with = (decided * signs[batch]).sum((1, 2))
            agreement = (agreed_with / decided.square().sum((1, 2)).sqrt().clamp_min(1e-6)).mean()
            loss = nn.functional.softplus(-decided * signs[batch]).mean() - _AGREEING * agreement
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            pace.step()
            agreed.append(float(agreement.detach()))
        report(number, float(np.mean(agreed)))
    return decider


_REPOSITORY = Path(__file__).parents[2]
_EACH = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.training.watermark_detector")
    parser.add_argument("--rounds", type=int, default=20, help="how often each lesson is heard")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    people = _REPOSITORY / "tools" / "training" / "people"
    readers = [read_speech(file) for file in sorted(people.glob("*/*.opus"))[1::2]]
    spoken = []
    for bundle in sorted((_REPOSITORY / "characters").glob("*/character.json")):
        converter = BundleConverter.of(bundle.parent)
        rate = converter.engine.sample_rate
        spoken += [
            MarkedSpeech(converter.raw(wave, seed=seed), rate) for seed, wave in enumerate(readers)
        ]
    lessons = make(spoken, _EACH, np.random.default_rng(0))

    def report(number: int, agreement: float) -> None:
        sys.stderr.write(f"\r{number + 1} of {rounds}: agreement {agreement:.2f} ")

    np.savez(WEIGHTS, **learn(lessons, rounds, report).weights()._asdict())
    sys.stdout.write(f"\nwritten: {WEIGHTS.relative_to(_REPOSITORY)}\n")


if __name__ == "__main__":
    main()
