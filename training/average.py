"""Teaches the average voice: the decoder that every other one begins with.

    python -m training.average VOICES [--others FOLDER] [--steps N] [--into FILE]
    python -m training.average --from BUNDLE [--into FILE]

VOICES has a folder of recordings for each voice that is learnt by its own name, such as `hina`.
They get half of the crops, the readers in `training/people/heard` the other half (or the people in
the folder of `--others`, each file or subfolder a person). The decoder begins with random weights.
What is learnt is written into FILE, in the form of `training/content/average.npz`. Called again,
the command goes on where it was stopped.

The second form gives the average voice what the decoder of a character has learnt since it began
with it; vectors and scales of the people stay.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from shared.characters.manifest import ManifestError, read_manifest
from training.adaptation import REPOSITORY, spoken_in
from training.content.graphs import HARMONIC, SIZE
from training.content.hearing import Ear
from training.content.voices import AVERAGE, Scale, begin, begin_from_nothing, save, vector_of
from training.decoder.export import ExportError
from training.decoder.graph_weights import load_network
from training.recordings.choosing.others import find_others
from training.recordings.runs.errors import RecordingsError
from training.recordings.runs.progress import Progress
from training.recordings.runs.work import WorkFolder
from training.recordings.teaching.learning import Lessons, Plan, scale_of
from training.recordings.teaching.stages import Effort, Training

_WORK = REPOSITORY / ".training" / "average"
_MADE = REPOSITORY / ".training" / "average.npz"
_PLAN = Plan(steps=9_200, batch=16, rate=1.2e-3, vectors_rate=1.2e-3)
_VERSIONS = 2  # one with another vocal tract, one only disturbed


@dataclass(frozen=True)
class Sources:
    """Who is learnt.

    Attributes:
        voices: a folder with a folder for each voice.
        others: recordings of other people; None takes the readers that come with the training.
    """

    voices: Path
    others: Path | None = None


def learn(sources: Sources, work: Path, plan: Plan, into: Path) -> None:
    """Train an average voice and write it.

    Args:
        sources: who is learnt.
        work: keeps lessons and checkpoint.
        plan: how long and how fast.
        into: the .npz file.

    Raises:
        RecordingsError: there are no voices, or one has no recordings.
    """
    torch.set_num_threads(1)
    folders = sorted(folder for folder in sources.voices.glob("*") if folder.is_dir())
    if not folders:
        raise RecordingsError(f"{sources.voices}: expected a folder for each voice, found none.")
    voices = {folder.name: spoken_in(folder) for folder in folders}
    ear = Ear.of(REPOSITORY / "characters" / "hina")
    choices = f"{sources.others} {plan}"
    kept = WorkFolder.open(work, sources.voices, choices, [sources.others])
    training = Training(ear, Effort(plan), kept, Progress(stages=2))
    people = find_others(sources.others).taught
    lessons = training.prepare_others({**voices, **people}, _VERSIONS)
    own, readers = (len(lessons.keys() & some.keys()) for some in (voices, people))
    shares = [0.5 / own if name in voices else 0.5 / readers for name in lessons]
    average = training.teach(
        begin_from_nothing({name: scale_of(one) for name, one in lessons.items()}, seed=1),
        Lessons(list(lessons.values()), shares, seed=1),
    )
    into.parent.mkdir(parents=True, exist_ok=True)
    save(average, list(lessons), into)


def inherit(bundle: Path, into: Path, average: Path = AVERAGE) -> None:
    """Write the average voice with what a character's decoder has learnt since it began with it.

    Args:
        bundle: of a character that hears with the shared encoder.
        into: the .npz file.
        average: the file that the decoder began with; its people keep their vectors and scales.

    Raises:
        ExportError: the bundle has another kind of decoder.
        ManifestError: the folder holds no bundle.
    """
    learnt = load_network(bundle / f"{HARMONIC}.onnx", size=SIZE)
    # The exported bias of the first layer has the character's vector in it.
    vector = vector_of(read_manifest(bundle).id, average)
    with torch.no_grad():
        learnt.join.bias -= torch.from_numpy(vector)
    with np.load(average) as kept:
        tables = [kept[name] for name in ("names", "cepstrum_mean", "cepstrum_spread", "melody")]
    people = {str(name): Scale(*scale) for name, *scale in zip(*tables, strict=True)}
    voices = begin(people, average)
    voices.load_state_dict(learnt.state_dict(), strict=False)
    into.parent.mkdir(parents=True, exist_ok=True)
    save(voices, list(people), into)


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for; exit with 0 if it was done, otherwise 1."""
    parser = argparse.ArgumentParser(prog="python -m training.average", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("voices", type=Path, nargs="?", metavar="VOICES")
    what.add_argument("--from", dest="bundle", type=Path, metavar="BUNDLE")
    parser.add_argument("--others", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=_PLAN.steps)
    parser.add_argument("--into", type=Path, metavar="FILE", default=_MADE)
    options = parser.parse_args(arguments)
    plan = replace(_PLAN, steps=options.steps)
    try:
        if options.bundle is not None:
            inherit(options.bundle, options.into)
        else:
            learn(Sources(options.voices, options.others), _WORK, plan, options.into)
    except (ExportError, ManifestError, RecordingsError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
