"""Teaches the small encoder for streams what the shared encoder hears.

    python -m tools.training.content.student WORK --speech FOLDER... [--steps 11500]

WORK keeps lessons and progress; the same command goes on where it was stopped. At the end there is
WORK/student.pt, which `python -m tools.training.content.graphs` writes into characters. It begins
with the encoder of Mei's first network, as far as it has as many blocks.

The student is taught as it hears while streaming: of what follows the frames that are spoken it
hears 12, after which all is silent, and level and mean spectrum are those of what came before. Of
the shared encoder's directions the three of the greatest variance hardly count: no student learns
them, and a decoder speaks as well without them.
"""

import argparse
import copy
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shared.speech.engines.content_encoder import tells_speaker
from shared.speech.signal.analysis import analyse
from shared.speech.signal.sound import NoClock
from tools.training.content.encoder import CHANNELS
from tools.training.content.graphs import SIZE
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.checkpoint import Checkpoint, approach
from tools.training.decoder.disturbance import Disturbance, spoil
from tools.training.decoder.export import load_network
from tools.training.decoder.features import BANDS, RATE, Floats, MelSpectrum, read_speech
from tools.training.decoder.network import (
    MEAN_PRIOR_FRAMES,
    Network,
    log_level,
    loud_weight,
    loudness,
)
from tools.training.decoder.stream import LOOKAHEAD

VERSIONS = 3
"""Disturbed versions of each recording; all but the first have another vocal tract and pitch."""
_MOST_SPEED = 0.17
_PIECE_SECONDS = 24
_SHORTEST_SECONDS = 0.4
_FEWEST_SPEAKING = 30
_PAUSE_WEIGHT = 0.1


@dataclass(frozen=True)
class EncoderLesson:
    """A piece of speech, T frames.

    Attributes:
        powers: logarithms of mel power as recorded and of versions, float16 [T, 80] each.
        content: what the shared encoder hears in it as recorded, without mean, float16 [T, 128].
        weight: how much each frame counts, float32 [T].
    """

    powers: Sequence[NDArray[np.float16]]
    content: NDArray[np.float16]
    weight: NDArray[np.float32]


def lessons_of(files: Sequence[Path], ear: SharedEncoder, seed: int) -> Iterator[EncoderLesson]:
    random = np.random.default_rng(seed)
    mel = MelSpectrum()
    for file in files:
        samples = read_speech(file)
        for begin in range(0, len(samples), _PIECE_SECONDS * RATE):
            piece = samples[begin : begin + _PIECE_SECONDS * RATE]
            if len(piece) >= _SHORTEST_SECONDS * RATE:
                lesson = lesson_of(piece, ear, mel, random)
                if lesson is not None:
                    yield lesson


def lesson_of(
    piece: Floats, ear: SharedEncoder, mel: MelSpectrum, random: np.random.Generator
) -> EncoderLesson | None:
    padded = np.pad(piece, (round(0.4 * RATE), round(0.3 * RATE)))
    analysis = analyse(padded, RATE, NoClock())
    speaking = tells_speaker(analysis)
    if speaking.sum() < _FEWEST_SPEAKING:
        return None
    frames = len(speaking)
    powers = [mel.log_power(analysis.wave, frames)]
    for version in range(VERSIONS):
        speed = float(np.exp(random.uniform(-_MOST_SPEED, _MOST_SPEED))) if version else 1.0
        sped = soxr.resample(analysis.wave, RATE * speed, RATE) if version else analysis.wave
        powers.append(mel.log_power(spoil(sped.astype(np.float32), random), frames, speed))
    content = ear.hear(analysis.wave, speaking)
    weight = np.where(speaking, 1.0, _PAUSE_WEIGHT).astype(np.float32)
    return EncoderLesson([p.astype(np.float16) for p in powers], content.astype(np.float16), weight)


CROP = 104
BATCH = 16
_ROOT = Path(__file__).resolve().parents[3]
_FIRST = _ROOT / "tests" / "data" / "bundles" / "mei" / "harmonic.onnx"
# As in tools.training.decoder.stream: frames before, of which one in four is known.
_HEARD, _EVERY = 1_200, 4
_HISTORY = _HEARD // _EVERY
_UNTAUGHT = 3
_SETTLING = 22  # frames at a crop's beginning that lack what came before
_AHEAD_WEIGHT = 0.35  # of frames that are heard again in the next step
_RATE = 1.5e-3
_WARM_UP = 200  # steps
_KEEP_EVERY = 1_000

Crop = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class StudentTraining:
    def __init__(self, lessons: list[EncoderLesson], seed: int) -> None:
        self._lessons = lessons
        self._seed = seed
        lengths = np.array([len(lesson.content) for lesson in lessons], np.float64)
        self._shares = lengths / lengths.sum()
        self.counts = torch.ones(CHANNELS)
        self.counts[:_UNTAUGHT] = 0.02

    def loss(self, network: Network, step: int) -> tuple[Tensor, float]:
        """The loss of a step, and which share of the content's variance is not explained."""
        random = np.random.default_rng((self._seed, step))
        power, history, known, content, weight = self._draw(random)
        if random.random() < 0.6:
            both = Disturbance(step).tract(torch.cat([power, history], 1))
            power, history = both[:, :CROP], both[:, CROP:]
        mel = running_normalise(network, power, history, known)
        with torch.autocast("cpu", torch.bfloat16):
            heard = network.hear(mel).transpose(1, 2)
        wrong = ((heard.float() - content) ** 2) @ self.counts
        loss = (wrong * weight).sum() / weight.sum() / CHANNELS
        whole = ((content**2 @ self.counts) * weight).sum() / weight.sum() / CHANNELS
        return loss, float(loss.detach() / whole)

    def _draw(self, random: np.random.Generator) -> Crop:
        chosen = random.choice(len(self._lessons), BATCH, p=self._shares)
        rows = [self._crop(self._lessons[index], random) for index in chosen]
        power, history, known, content, weight = (
            torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
        )
        return torch.exp(power), torch.exp(history), known, content, weight

    def _crop(self, lesson: EncoderLesson, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        version = 0 if random.random() < 0.3 else int(random.integers(len(lesson.powers)))
        power, frames = lesson.powers[version], len(lesson.content)
        first = int(random.integers(max(1, frames - CROP + 1)))
        wanted = np.arange(first, first + CROP)
        at = np.minimum(wanted, frames - 1)
        weight = lesson.weight[at] * (wanted < frames)
        weight[: _SETTLING if first else 0] = 0
        weight[CROP - LOOKAHEAD :] *= _AHEAD_WEIGHT
        began = 0 if random.random() < 0.7 else int(random.integers(first + 1))
        before = power[max(began, first - _HEARD) : first : _EVERY][-_HISTORY:]
        history, known = np.zeros((_HISTORY, BANDS), np.float32), np.zeros(_HISTORY, np.float32)
        if len(before):
            history[-len(before) :], known[-len(before) :] = before, 1
        return (
            power[at].astype(np.float32), history, known, lesson.content[at].astype(np.float32),
            weight.astype(np.float32),
        )  # fmt: skip


def running_normalise(network: Network, power: Tensor, history: Tensor, known: Tensor) -> Tensor:
    """As `Network.normalise`, by what came so far, as streams do.

    `history` has every fourth frame before `power`, `known` is 1 where it is of the recording.
    """
    some = power[:, ::_EVERY]
    heard = torch.cat([history * known[..., None], some], 1)
    loud = loudness(heard)
    is_there = torch.cat([known, torch.ones(some.shape[:2])], 1)[..., None]
    log = log_level(heard, loud)
    weight = loud_weight(log) * is_there * _EVERY
    total = (weight * log).sum(1, keepdim=True) + MEAN_PRIOR_FRAMES * network.mel_mean
    return log_level(power, loud) - total / (weight.sum(1, keepdim=True) + MEAN_PRIOR_FRAMES)


def new_student() -> Network:
    """The student before it has learnt; it begins with the encoder of Mei's first network."""
    torch.manual_seed(1)
    student = Network(SIZE)
    base = load_network(_FIRST).state_dict()
    kept = ("entry.", "encoder.", "mel_mean")
    state = {name: value for name, value in base.items() if name.startswith(kept)}
    student.load_state_dict(state, strict=False)
    return student


def teach(student: Network, teaching: StudentTraining, steps: int, progress: Path) -> Network:
    halves = (student.entry, student.encoder, student.content)
    parameters = [parameter for half in halves for parameter in half.parameters()]
    optimiser = torch.optim.AdamW(parameters, _RATE, betas=(0.9, 0.98), weight_decay=1e-2)
    average = copy.deepcopy(student)
    parts = {"student": student, "average": average, "optimiser": optimiser}
    checkpoint = Checkpoint(progress, parts)
    unexplained: list[float] = []
    for step in range(checkpoint.resume(), steps):
        fall = max(0.01, 1 - max(0, step / steps - 0.15) / 0.85)
        for group in optimiser.param_groups:
            group["lr"] = _RATE * min(1, (step + 1) / _WARM_UP) * fall
        loss, wrong = teaching.loss(student, step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        approach(average, student, min(0.999, (1 + step) / (10 + step)))
        unexplained.append(wrong)
        if (step + 1) % _KEEP_EVERY == 0:
            print(f"step {step + 1}: {np.mean(unexplained[-_KEEP_EVERY:]):.3f} not explained")
            checkpoint.save(step + 1)
    return average.eval()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("work", type=Path, help="folder for lessons and progress")
    add("--speech", type=Path, nargs="+", required=True, help="WAV, FLAC")
    add("--steps", type=int, default=11_500)
    asked = parser.parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    lessons: list[EncoderLesson] = []
    ear = SharedEncoder.of(_ROOT / "characters" / "hina")
    for folder in asked.speech:
        kept = asked.work / f"{folder.resolve().name}.pickle"
        if not kept.exists():
            files = sorted(f for f in folder.rglob("*") if f.suffix in {".wav", ".flac", ".opus"})
            kept.write_bytes(pickle.dumps(list(lessons_of(files, ear, 1))))
        lessons += pickle.loads(kept.read_bytes())
    teaching = StudentTraining(lessons, 11)
    student = teach(new_student(), teaching, asked.steps, asked.work / "progress.pt")
    torch.save(student.state_dict(), asked.work / "student.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
