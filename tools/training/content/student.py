"""Teaches the shared encoder to hear in windows, as it does while somebody speaks.

    python -m tools.training.content.student WORK --speech FOLDER... [--steps 2500]

WORK keeps lessons and progress; the same command goes on where it was stopped. At the end there is
WORK/window.npz, what `python -m tools.training.content.graphs` takes from this folder.

What is wanted of a window is what the encoder hears in the whole recording, without its mean, and
undisturbed. A step that knows little of what comes counts less. In the end seven tenths of what was
learnt are taken: half-way to the weights of before, speakers whom nobody taught are heard better
(M. Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022).
"""

import argparse
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn
from torch.nn import functional

from shared.speech.engines.content_encoder import tells_speaker
from shared.speech.signal.analysis import analyse
from shared.speech.signal.sound import NoClock
from tools.training.content.encoder import HOP, read_encoder
from tools.training.content.shared_encoder import SharedEncoder, encoder_of
from tools.training.content.window import (
    PAST,
    PRIOR_LEVEL,
    PRIOR_STEPS,
    TURN,
    UNTAUGHT,
    WindowedEncoder,
    decades,
    find_telling,
    mel_power,
    scale_mel,
    without_mean,
)
from tools.training.decoder.checkpoint import Checkpoint
from tools.training.decoder.disturbance import spoil
from tools.training.decoder.features import RATE, Floats, read_speech

_PIECE_SECONDS = 24
_SHORTEST_SECONDS = 0.4
_FEWEST_TELLING = 15
_STEP = 2 * HOP


@dataclass(frozen=True)
class EncoderLesson:
    """A piece of speech, T steps of 20 ms.

    Attributes:
        wave: int16 [320 T].
        heard: what the shared encoder hears in all of it, float16 [T, 128].
        telling: which steps tell of the speaker, bool [T].
    """

    wave: NDArray[np.int16]
    heard: NDArray[np.float16]
    telling: NDArray[np.bool_]


def lessons_of(files: Sequence[Path], ear: SharedEncoder) -> Iterator[EncoderLesson]:
    for file in files:
        samples = read_speech(file)
        for begin in range(0, len(samples), _PIECE_SECONDS * RATE):
            piece = samples[begin : begin + _PIECE_SECONDS * RATE]
            if len(piece) >= _SHORTEST_SECONDS * RATE:
                lesson = lesson_of(piece, ear)
                if lesson.telling.sum() >= _FEWEST_TELLING:
                    yield lesson


def lesson_of(piece: Floats, ear: SharedEncoder) -> EncoderLesson:
    padded = np.pad(piece, (round(0.4 * RATE), round(0.3 * RATE)))
    telling = tells_speaker(analyse(padded, RATE, NoClock()))[::2]
    heard = ear.listen(padded)[::2]
    wave = np.zeros(_STEP * len(heard), np.float32)
    wave[: len(padded)] = padded * (0.6 / max(float(np.abs(padded).max()), 1e-6))
    known = np.resize(np.append(telling, [False] * len(heard)), len(heard))
    return EncoderLesson((wave * 32_767).astype(np.int16), heard.astype(np.float16), known)


STEPS = 200  # of a crop: 4 s
BATCH = 2
WINDOWS = (5, 14)  # steps, fewest and most
_MOST_SPEED = 0.22
_MOST_BEFORE = 300  # steps before a crop that level and mean may be of
_GAINS_DB = (-28, 0)
_SETTLING = 4  # steps at the beginning of a crop, of which little is wanted
_TAKEN = 0.7  # of what was learnt
_SIZE = 0.8  # of the content then: what was not learnt hears louder
_PAUSE_WEIGHT, _UNIT_WEIGHT = 0.1, 0.1
_RATE = 1e-3
_WARM_UP = 20  # steps
_KEEP_EVERY = 100
_UNITS, _UNIT_SHARPNESS = 500, 8.0

Crop = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class StudentTraining:
    def __init__(self, lessons: list[EncoderLesson], encoder: WindowedEncoder, seed: int) -> None:
        self._lessons = lessons
        self._mel = encoder.mel
        self._seed = seed
        lengths = np.array([len(lesson.heard) for lesson in lessons], np.float64)
        self._shares = lengths / lengths.sum()
        said = np.concatenate([wanted_of(one)[one.telling, UNTAUGHT:] for one in lessons])
        units, _ = kmeans2(said, min(_UNITS, len(said) // 40), seed=seed, minit="points")
        self._units = torch.from_numpy(units)

    def loss(self, encoder: WindowedEncoder, step: int) -> tuple[Tensor, float]:
        """The loss of a step, and which share of the content's variance is not explained."""
        random = np.random.default_rng((self._seed, step))
        rows = [self._crop(random) for _ in range(BATCH)]
        mel, loudest, told, wanted, weight = (torch.stack(one) for one in zip(*rows, strict=True))
        heard, ahead = hear_crops(encoder, mel, loudest, told, random)
        weight = weight * torch.clamp(0.4 + 0.15 * ahead, max=1)
        weight[:, :_SETTLING] *= 0.2
        heard, wanted = heard[..., UNTAUGHT:], wanted[..., UNTAUGHT:]
        share = weight / weight.sum()
        wrong = (((heard - wanted) ** 2).sum(-1) * share).sum()
        wrong = wrong / ((wanted**2).sum(-1) * share).sum()
        near = (functional.cosine_similarity(heard, wanted, dim=-1) * share).sum()
        scores, unit = (self._scores(each) for each in (heard, wanted))
        surprise = functional.cross_entropy(
            scores.flatten(0, 1) / _UNIT_SHARPNESS, unit.argmax(-1).flatten(), reduction="none"
        )
        loss = wrong + 1 - near + _UNIT_WEIGHT * (surprise * share.flatten()).sum()
        return loss, float(wrong.detach())

    def _scores(self, content: Tensor) -> Tensor:
        return content @ self._units.T - (self._units**2).sum(1) / 2

    def _crop(self, random: np.random.Generator) -> Crop:
        lesson = self._lessons[int(random.choice(len(self._lessons), p=self._shares))]
        speed = float(np.exp(random.uniform(-_MOST_SPEED, _MOST_SPEED)))
        last = max(1, len(lesson.heard) - STEPS)
        first = int(random.integers(last)) if random.random() < 0.75 else 0
        before = 0 if random.random() < 0.4 else min(first, int(random.integers(_MOST_BEFORE)))
        needed = (first * _STEP, first * _STEP + round((STEPS + 5) * _STEP * speed))
        spoken = lesson.wave[needed[0] - before * _STEP : needed[1]] / np.float32(32_768)
        wave: Floats = np.asarray(soxr.resample(spoken, RATE * speed, RATE), np.float32)
        if random.random() < 0.75:
            wave = spoil(wave, random)
        gain = 10 ** (random.uniform(*_GAINS_DB) / 20) / max(float(np.abs(wave).max()), 1e-5)
        wave *= np.float32(gain)
        known = round(before / speed)
        mel = self._decades(wave, known * _STEP)
        position = first + np.arange(STEPS) * speed
        at = np.minimum(np.rint(position).astype(int), len(lesson.heard) - 1)
        weight = np.where(lesson.telling[at], 1.0, _PAUSE_WEIGHT) * (position < len(lesson.heard))
        said = lesson.heard[first - before : first][lesson.telling[first - before : first]]
        told = np.append(said.astype(np.float32).sum(0), len(said))
        loudest = mel[: 2 * known].amax() if known else torch.tensor(PRIOR_LEVEL)
        return (
            mel[2 * known : 2 * known + 2 * STEPS + 3],
            loudest.clamp_min(PRIOR_LEVEL),
            torch.from_numpy(told).float(),
            torch.from_numpy(wanted_of(lesson)[at]),
            torch.from_numpy(weight).float(),
        )

    def _decades(self, wave: Floats, begin: int) -> Tensor:
        """The mel spectrum of a wave from two frames before it on, in decades."""
        length = begin + (2 * STEPS + 3) * HOP
        padded = np.pad(wave[:length], (240 + 2 * HOP, max(0, length - len(wave)) + 80))
        hops = len(padded) // HOP
        return decades(mel_power(self._mel, torch.from_numpy(padded[None, : hops * HOP])))[0]


def wanted_of(lesson: EncoderLesson) -> Floats:
    heard = lesson.heard.astype(np.float32)
    mean = heard[lesson.telling].sum(0) / (lesson.telling.sum() + PRIOR_STEPS)
    return np.asarray(heard - mean, np.float32)


def hear_crops(
    encoder: WindowedEncoder,
    mel: Tensor,
    loudest: Tensor,
    told: Tensor,
    random: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Hear crops in windows of one length: content, and the steps of a window after each one."""
    length = int(random.integers(WINDOWS[0], WINDOWS[1] + 1))
    step = torch.arange(STEPS)
    offset = int(random.integers(length))
    begin = (step + offset) // length * length - offset
    end = (begin + length).clamp(max=STEPS)
    attended = (step >= (begin - PAST)[:, None]) & (step < end[:, None])
    level = torch.maximum(mel.amax(2)[:, 2:-1].cummax(1).values, loudest[:, None])
    level = level[:, (2 * end - 1).repeat_interleave(2)]
    level = torch.cat([level[:, :1], level[:, :1], level, level[:, -1:]], 1)[..., None]
    scaled = scale_mel(mel, level)
    turned = int(random.integers(TURN)) if random.random() < 0.3 else 0
    heard, _ = encoder.encode(scaled, step + turned, torch.where(attended, 0.0, -1e4))
    telling = find_telling(scaled[:, 2:-1])
    total = torch.cat([heard * telling, telling], 2).cumsum(1)[:, end - 1] + told[:, None]
    return without_mean(heard, total), (end - 1 - step).float()


def teach(
    encoder: WindowedEncoder, teaching: StudentTraining, steps: int, progress: Path
) -> WindowedEncoder:
    parameters = list(encoder.taught().values())
    optimiser = torch.optim.AdamW(parameters, _RATE, betas=(0.9, 0.98), weight_decay=1e-3)
    checkpoint = Checkpoint(progress, {"encoder": encoder, "optimiser": optimiser})
    unexplained: list[float] = []
    for step in range(checkpoint.resume(), steps):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * min(1, (step + 1) / _WARM_UP) * max(0.01, 1 - step / steps)
        loss, wrong = teaching.loss(encoder, step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        unexplained.append(wrong)
        if (step + 1) % _KEEP_EVERY == 0:
            print(f"step {step + 1}: {np.mean(unexplained[-_KEEP_EVERY:]):.3f} not explained")
            checkpoint.save(step + 1)
    return encoder.eval()


def take_most(encoder: WindowedEncoder, begun: dict[str, Tensor]) -> None:
    """Go back by a part to the parameters that the training began with, and scale the content."""
    with torch.no_grad():
        for name, each in encoder.taught().items():
            if not name.endswith(".down"):
                each.lerp_(begun[name], 1 - _TAKEN)
            if "projection" in name:
                each.mul_(_SIZE)


_ROOT = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("work", type=Path, help="folder for lessons and progress")
    add("--speech", type=Path, nargs="+", required=True, help="WAV, FLAC")
    add("--steps", type=int, default=2_500)
    asked = parser.parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    lessons: list[EncoderLesson] = []
    graph = encoder_of(_ROOT / "characters" / "hina")
    ear = SharedEncoder(graph)
    for folder in asked.speech:
        kept = asked.work / f"{folder.resolve().name}.pickle"
        if not kept.exists():
            files = sorted(f for f in folder.rglob("*") if f.suffix in {".wav", ".flac", ".opus"})
            kept.write_bytes(pickle.dumps(list(lessons_of(files, ear))))
        lessons += pickle.loads(kept.read_bytes())
    encoder = WindowedEncoder(read_encoder(graph))
    begun = {name: each.detach().clone() for name, each in encoder.taught().items()}
    teaching = StudentTraining(lessons, encoder, 11)
    teach(encoder, teaching, asked.steps, asked.work / "progress.pt")
    take_most(encoder, begun)
    encoder.store(asked.work / "window.npz")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
