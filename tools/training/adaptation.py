"""Teaches the decoder of a character that comes with the repository its voice.

    python -m tools.training.adaptation ID RECORDINGS [--readers FOLDER] [--steps N] [--like-owners]

`characters/ID` is there already: its graphs get new weights, and its manifest names them; how high
the character speaks stays as it is. The training begins with the average voice, as that of an
owner's recordings does. RECORDINGS holds files of the voice alone. The folder of readers holds more
people to learn beside, each file a person; whom characters are judged by is left out. What is heard
is disturbed more than an owner's recordings are. With --like-owners the voice has the share of what
is learnt that an owner's has, and as little of the variance is given back.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.features import read_mono
from tools.training.recordings.bundle import give_spectrum, put_into
from tools.training.recordings.learner import Plan, Training, TrainingEffort
from tools.training.recordings.selection import find_others, readers_in
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError, TrainingProgress, WorkFolder

REPOSITORY = Path(__file__).resolve().parents[2]
_KINDS = {".wav", ".flac", ".opus", ".ogg"}
_SHARE, _SHARE_BESIDE_READERS, _BATCH, _STEPS = 0.7, 0.5, 12, 3_000
_COMPENSATED = 1.15


@dataclass(frozen=True)
class AdaptationFolders:
    """Where things lie; without `others`, those that come with the training are learnt beside."""

    bundle: Path
    work: Path
    others: Path | None = None
    readers: Path | None = None


def adapt(
    places: AdaptationFolders, recordings: Path, steps: int, *, is_like_owners: bool = False
) -> None:
    """Train a character's decoder and put its weights into the bundle."""
    ear = SharedEncoder.of(places.bundle)
    share = _SHARE if places.readers is None else _SHARE_BESIDE_READERS
    plan = Plan(steps=steps, batch=_BATCH)
    effort = TrainingEffort(plan, is_harsh=True)
    if not is_like_owners:
        effort = replace(effort, owner_share=share, compensated=_COMPENSATED)
    choices = f"{places.readers} {effort}"
    beside = [places.readers, places.others]
    work = WorkFolder.open(places.work, recordings, choices, beside)
    training = Training(ear, effort, work, TrainingProgress(stages=4))
    taught = dict(find_others(places.others).taught)
    if places.readers is not None:
        taught |= readers_in(places.readers)
    spoken = spoken_in(recordings)
    network = training.run(spoken, taught).network
    put_into(places.bundle, network)
    give_spectrum(places.bundle, network, spoken)


def spoken_in(folder: Path) -> list[Utterance]:
    """Everything in a folder of one voice's recordings, each of up to 30 s."""
    return [Utterance(file.name, 0.0, *read_mono(file)) for file in files_in(folder)]


def files_in(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.rglob("*") if file.suffix in _KINDS)
    if not found:
        raise RecordingsError(f"{folder}: expected a folder with recordings, found none.")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.training.adaptation", description=__doc__
    )
    add = parser.add_argument
    add("character", metavar="ID")
    add("recordings", type=Path)
    add("--readers", type=Path, metavar="FOLDER")
    add("--steps", type=int, default=_STEPS)
    add("--like-owners", action="store_true")
    options = parser.parse_args(arguments)
    places = AdaptationFolders(
        REPOSITORY / "characters" / options.character,
        REPOSITORY / ".training" / "adaptation" / options.character,
        readers=options.readers,
    )
    try:
        adapt(
            places, options.recordings, options.steps,
            is_like_owners=options.like_owners,
        )  # fmt: skip
    except RecordingsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
