"""Teaches the average voice: the decoder that every other one begins with.

    python -m tools.training.average VOICES [--beside FOLDER ...] [--others FOLDER] [--begin FILE]
        [--steps N] [--into FILE]

VOICES has a folder of recordings for each voice that is learnt by its own name, such as `hina`. The
readers in `tools/training/people/heard` (or the people in the folder of `--others`, each file or
subfolder a person) and the people of each folder of `--beside` get as many crops as all of VOICES
together. The decoder begins with what FILE holds, in the form of
`tools/training/content/average.npz`, or with random weights. What is learnt is written into another
such file, without the people of `--beside`. Called again, the command goes on where it was stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tools.training.adaptation import REPOSITORY, spoken_in
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import begin, begin_from_nothing, save
from tools.training.recordings.learner import Lessons, Plan, Training, TrainingEffort, scale_of
from tools.training.recordings.selection import find_others, readers_in
from tools.training.recordings.work_folder import RecordingsError, TrainingProgress, WorkFolder

_WORK = REPOSITORY / ".training" / "average"
_MADE = REPOSITORY / ".training" / "average.npz"
_PLAN = Plan(steps=4_000, batch=14, rate=8e-4, vectors_rate=6e-3, flat=0.4)
_VERSIONS = 3


@dataclass(frozen=True)
class Sources:
    """Speech beside the shipped readers or `others`; without `begin`, random weights learn."""

    voices: Path
    others: Path | None = None
    beside: tuple[Path, ...] = ()
    begin: Path | None = None


def learn(sources: Sources, work: Path, plan: Plan, into: Path) -> None:
    torch.set_num_threads(1)
    if sources.begin is not None and not sources.begin.is_file():
        raise RecordingsError(f"{sources.begin}: expected a file to begin with, found none.")
    folders = sorted(folder for folder in sources.voices.glob("*") if folder.is_dir())
    if not folders:
        raise RecordingsError(f"{sources.voices}: expected a folder for each voice, found none.")
    voices = {folder.name: spoken_in(folder) for folder in folders}
    groups = [voices, find_others(sources.others).taught, *map(readers_in, sources.beside)]
    # Who is in several groups is heard in the last, and has the crops of all.
    people = {name: one for group in groups for name, one in group.items()}
    begun = sources.begin and (sources.begin, sources.begin.stat().st_mtime)
    beside = [sources.others, *sources.beside]
    folder = WorkFolder.open(work, sources.voices, f"{beside} {begun} {plan}", beside)
    ear = SharedEncoder.of(REPOSITORY / "characters" / "hina")
    training = Training(
        ear, TrainingEffort(plan, is_harsh=True), folder, TrainingProgress(stages=2)
    )
    lessons = training.prepare_others(people, _VERSIONS)
    scales = {name: scale_of(one) for name, one in lessons.items()}
    first = begin(scales, sources.begin) if sources.begin else begin_from_nothing(scales, seed=1)
    shares = [sum(1 / len(group) for group in groups if name in group) for name in lessons]
    average = training.teach(first, Lessons(list(lessons.values()), shares, seed=1))
    into.parent.mkdir(parents=True, exist_ok=True)
    kept = [name for name in lessons if name in groups[0] or name in groups[1]]
    save(average, kept, into)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.training.average", description=__doc__)
    add = parser.add_argument
    add("voices", type=Path, metavar="VOICES")
    add("--beside", type=Path, action="append", default=[], metavar="FOLDER")
    add("--others", type=Path, metavar="FOLDER")
    add("--begin", type=Path, metavar="FILE")
    add("--steps", type=int, default=_PLAN.steps)
    add("--into", type=Path, metavar="FILE", default=_MADE)
    options = parser.parse_args(arguments)
    sources = Sources(options.voices, options.others, tuple(options.beside), options.begin)
    try:
        learn(sources, _WORK, replace(_PLAN, steps=options.steps), options.into)
    except RecordingsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
