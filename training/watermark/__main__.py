"""Teaches the detector of the watermark: a few minutes on one processor.

    python -m training.watermark [--rounds N]

Every second reader of `training/people` is converted by the characters of the repository. Their
conversions are marked with keys drawn at random and damaged: noise, codecs, rooms. The network is
written beside the detector. `nox -s bench -- watermark` judges with the other readers.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import soundfile
import torch

from speech.engines.interface.engine import ConversionOptions
from speech.results.watermark.decisions import WEIGHTS
from speech.signal.samples import resample
from training.quality.converter import Converter
from training.sound.features import RATE, Floats
from training.watermark.lessons import Speech, make
from training.watermark.network import learn

_REPOSITORY = Path(__file__).parents[2]
_PEOPLE = _REPOSITORY / "training" / "people"
_EACH = 10


def _speak(converter: Converter, readers: list[Floats]) -> list[Speech]:
    engine = converter.engine
    return [
        Speech(engine.convert(wave, RATE, ConversionOptions(seed=seed)), engine.sample_rate)
        for seed, wave in enumerate(readers)
    ]


def _read(file: Path) -> Floats:
    wave, rate = soundfile.read(file, dtype="float32")
    return resample(wave, rate, RATE)


def main() -> None:
    """Teach it and write what it learned."""
    parser = argparse.ArgumentParser(prog="python -m training.watermark")
    parser.add_argument("--rounds", type=int, default=20, help="how often each lesson is heard")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    readers = [_read(file) for file in sorted(_PEOPLE.glob("*/*.opus"))[1::2]]
    spoken = [
        speech
        for bundle in sorted((_REPOSITORY / "characters").glob("*/character.json"))
        for speech in _speak(Converter.of(bundle.parent), readers)
    ]
    lessons = make(spoken, _EACH, np.random.default_rng(0))

    def report(number: int, agreement: float) -> None:
        sys.stderr.write(f"\r{number + 1} of {rounds}: agreement {agreement:.2f} ")

    np.savez(WEIGHTS, **learn(lessons, rounds, report).weights()._asdict())
    sys.stdout.write(f"\nwritten: {WEIGHTS.relative_to(_REPOSITORY)}\n")


if __name__ == "__main__":
    main()
