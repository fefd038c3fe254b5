"""Command line of the training: `python -m training --help`."""

import argparse
import multiprocessing
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pocketsphinx

from importing.bundles.consent import ask_at_terminal
from speech.bundles.bundle import BundleError
from speech.signal.samples import resample
from training.dataset import native_examples
from training.export import Melody, export, load_network
from training.features import RATE, Floats
from training.generate import generate
from training.judges import command as judging
from training.quality.card import write_tables
from training.quality.run import run as measure
from training.quality.similarity import SpeakerEncoder
from training.recordings import command
from training.recordings.errors import RecordingsError
from training.recordings.others import SHIPPED
from training.recordings.work import WorkFolder
from training.stream_export import export_stream
from training.train import Plan, Trainer
from training.variance import compensate

REPOSITORY = Path(__file__).resolve().parent.parent
BUNDLE = REPOSITORY / "characters" / "mei"
WORK = REPOSITORY / ".training"
_PROGRAMS = ("hts_engine", "flite", "festival", "ffmpeg")


@dataclass(frozen=True)
class Effort:
    """How much of everything is done.

    Attributes:
        generate_minutes: of each generating process.
        processes: that generate.
        train_minutes: wall-clock of the training.
        sentences: of each held-out voice in the evaluation.
    """

    generate_minutes: float
    processes: int
    train_minutes: float
    sentences: int


FULL = Effort(generate_minutes=40.0, processes=2, train_minutes=90.0, sentences=8)
QUICK = Effort(generate_minutes=0.4, processes=1, train_minutes=0.4, sentences=1)


@dataclass(frozen=True)
class Places:
    """Where data, checkpoint, cached measurements and bundle lie."""

    work: Path
    bundle: Path

    @property
    def data(self) -> Path:
        """Shards of training pairs."""
        return self.work / "data"

    @property
    def has_data(self) -> bool:
        """Whether there are any."""
        return self.data.is_dir() and any(self.data.iterdir())

    @property
    def cache(self) -> Path:
        """Held-out material and the phone recogniser."""
        return self.work / "quality"

    @property
    def checkpoint(self) -> Path:
        """The training's state, replaced as it goes on."""
        return self.work / "checkpoint.pt"


def dictionary() -> Path:
    """The pronouncing dictionary that pocketsphinx brings along."""
    return Path(pocketsphinx.__file__).parent / "model" / "en-us" / "cmudict-en-us.dict"


def make_data(places: Places, effort: Effort) -> None:
    """Generates pairs in several processes."""
    jobs = [
        (places.data, dictionary(), seed + 1, effort.generate_minutes)
        for seed in range(effort.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(effort.processes) as pool:
        pool.starmap(generate, jobs)


def train(places: Places, effort: Effort) -> None:
    """Trains, or goes on with a training that was stopped."""
    often = 20 if effort is QUICK else 100
    plan = Plan(minutes=effort.train_minutes, report_every=often, save_every=5 * often)
    Trainer(places.data, places.work, plan).run()


def write_bundle(places: Places) -> None:
    """Exports the checkpoint into the bundle, whole and for hearing."""
    examples = native_examples(places.data, limit=300)
    melody = Melody.of(np.concatenate([e.log_f0[e.log_f0 > 0] for e in examples]))
    network = load_network(places.checkpoint)
    compensate(network, examples[:120])
    file = export(network, melody, places.bundle)
    portrait = BUNDLE / "portrait.svg"
    if places.bundle != BUNDLE and portrait.exists():
        shutil.copy(portrait, places.bundle)
    print(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    stream = export_stream(places.bundle)
    print(f"wrote {stream} ({stream.stat().st_size / 1e3:.0f} kB)")


def evaluate(places: Places, effort: Effort) -> None:
    """Measures the bundle and writes the tables into its model card."""
    tables = measure(places.bundle, places.data, places.cache, dictionary(), effort.sentences)
    print(tables)
    write_tables(places.bundle / "MODEL_CARD.md", tables)


_RECORDINGS = command.Places(
    REPOSITORY / "characters", REPOSITORY / "characters" / "hina", WORK / "recordings"
)
_STEPS = {"generate": make_data, "train": train, "quality": evaluate}


def _from_recordings(arguments: list[str]) -> int:
    return command.main(arguments, _RECORDINGS, ask_at_terminal, SpeakerEncoder())


def _judging(options: argparse.Namespace) -> judging.Places:
    return judging.Places(
        characters=options.bundle.parent if options.bundle else REPOSITORY / "characters",
        strangers=SHIPPED / "strangers",
        judges=WORK / "kokoro" / "judge-ja",
        voices=(WORK / "voices", WORK / "kokoro"),
        models=WORK / "judges",
    )


def _own_voice(character: str) -> list[Floats]:
    """What a training with recordings kept of its owner's speech, at 16 kHz."""
    kept = WorkFolder(_RECORDINGS.work / character)
    if not kept.has("selection"):
        return []
    spoken = kept.read("selection").utterances
    return [resample(one.samples, one.rate, RATE) for one in spoken]


def _judge(options: argparse.Namespace, places: Places) -> int:
    """Judges characters, and measures those again whose training is still here."""
    character: str | None = options.character
    try:
        print(
            judging.judge(
                [character] if character else [],
                _judging(options),
                _own_voice,
                is_quick=options.quick,
                is_live=options.live,
                clean=options.clean,
            )
        )
        if character and (_RECORDINGS.work / character).is_dir() and not options.live:
            print(command.measure(character, _RECORDINGS, WORK / "quality", SpeakerEncoder()))
        elif character in {None, BUNDLE.name} and places.has_data and not options.live:
            evaluate(places, QUICK if options.quick else FULL)
    except (BundleError, RecordingsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the steps that are asked for, or makes a character of recordings."""
    given = sys.argv[1:] if arguments is None else arguments
    if {"--recordings", "--clear"} & {argument.split("=")[0] for argument in given}:
        return _from_recordings(given)
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument(
        "steps",
        nargs="*",
        metavar="STEP",
        help="generate, train, export, quality; all four if none is named",
    )
    parser.add_argument(
        "--quick", action="store_true", help="minutes instead of hours; a bundle to try the path"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="folder for data and checkpoints")
    parser.add_argument(
        "--character", metavar="ID", help="whom to measure (default: every character)"
    )
    parser.add_argument(
        "--live", action="store_true", help="measure what is heard while somebody speaks"
    )
    parser.add_argument(
        "--clean", type=int, metavar="N", help="judge N clean recordings of each speaker alone"
    )
    parser.add_argument("--bundle", type=Path, help="bundle to write or measure")
    options = parser.parse_args(given)
    steps = options.steps or ["generate", "train", "export", "quality"]
    unknown = set(steps) - {*_STEPS, "export"}
    if unknown:
        parser.error(
            f"unknown step {', '.join(sorted(unknown))}; expected {', '.join(_STEPS)} or export"
        )
    effort = QUICK if options.quick else FULL
    work = options.work / "quick" if options.quick else options.work
    bundle = options.bundle or (work / "mei" if options.quick else BUNDLE)
    places = Places(work, bundle)
    if options.character or steps == ["quality"]:
        return _judge(options, places)
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}; see training/README.md", file=sys.stderr)
        return 1
    if "generate" not in steps and not places.has_data:
        print(f"no data in {places.data}; first: python -m training generate", file=sys.stderr)
        return 1
    for step in steps:
        print(f"== {step}", flush=True)
        if step == "export":
            write_bundle(places)
        else:
            _STEPS[step](places, effort)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
