"""Teaches the decoder of a character that comes with the repository its voice.

    python -m tools.training.adaptation ID RECORDINGS [--readers FOLDER] [--steps N] [--like-owners]
    python -m tools.training.adaptation ID --blend OTHER [--share S]

`characters/ID` is there already: its graphs get new weights, and its manifest names them; how high
the character speaks stays as it is. The training begins with the average voice, as that of an
owner's recordings does. RECORDINGS holds files of the voice alone. The folder of readers holds more
people to learn beside, each file a person; whom characters are judged by is left out. What is heard
is disturbed more than an owner's recordings are. With --like-owners the voice has the share of what
is learnt that an owner's has, and as little of the variance is given back.

With --blend the decoder gets the mean of its own and OTHER's weights, a bundle of the same
character. Both began with the average voice, so that what lies between them speaks, too.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from shared.characters.manifest import ManifestError, read_manifest
from tools.training.content.graphs import HARMONIC, SIZE
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.export import ExportError, load_network
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


def blend(bundle: Path, other: Path, share: float) -> None:
    """Blend a character's decoder with a share, 0 to 1, of another one of the same character.

    M. Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models improves
    accuracy without increasing inference time", ICML 2022.

    Raises:
        ExportError: a bundle is another character's, or has another kind of decoder.
        ManifestError: one of the folders holds no bundle.
    """
    who, whose = (read_manifest(one).id for one in (bundle, other))
    if who != whose:
        raise ExportError(f"{other}: expected another decoder of {who}, found {whose}.")
    own, theirs = (load_network(one / f"{HARMONIC}.onnx", size=SIZE) for one in (bundle, other))
    with torch.no_grad():
        for one, another in zip(
            own.state_dict().values(), theirs.state_dict().values(), strict=True
        ):
            one.lerp_(another, share)
    own.melody_mean += share * (theirs.melody_mean - own.melody_mean)
    own.melody_spread += share * (theirs.melody_spread - own.melody_spread)
    put_into(bundle, own)


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
    add("recordings", type=Path, nargs="?")
    add("--readers", type=Path, metavar="FOLDER")
    add("--steps", type=int, default=_STEPS)
    add("--like-owners", action="store_true")
    add("--blend", type=Path, metavar="OTHER", help="a bundle")
    add("--share", type=float, default=0.5, help="of the other's weights (default: 0.5)")
    options = parser.parse_args(arguments)
    if (options.recordings is None) == (options.blend is None):
        parser.error("expected recordings, or --blend with a bundle")
    places = AdaptationFolders(
        REPOSITORY / "characters" / options.character,
        REPOSITORY / ".training" / "adaptation" / options.character,
        readers=options.readers,
    )
    try:
        if options.blend:
            blend(places.bundle, options.blend, options.share)
        else:
            adapt(places, options.recordings, options.steps, is_like_owners=options.like_owners)
    except (ExportError, ManifestError, RecordingsError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
