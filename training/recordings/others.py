"""Recordings of other people: to learn from, and to measure with."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.features import RATE
from training.recordings.errors import RecordingsError
from training.recordings.reading import Piece, find_recordings, read_pieces
from training.recordings.screening import Utterance, screen
from training.sources.recordings import READERS, Reader, load

TAUGHT_SECONDS = 1_000.0
MOST_STRANGERS = 10
_STRANGER_SECONDS = 20.0
_TAUGHT_PER_FILE = 15.0
_PROMPTS_EACH = 60


@dataclass(frozen=True)
class Others:
    """Other people's speech.

    Attributes:
        taught: what the decoder also learns to hear.
        strangers: whom it never hears, by name; they show what it does with anybody.
    """

    taught: list[Utterance]
    strangers: dict[str, list[Utterance]]


def find_others(folder: Path | None, say: Callable[[str], None]) -> Others:
    """Read other people's recordings from a folder, or from what Debian's packages brought.

    In a folder with folders in it each is a person, otherwise each file is.

    Raises:
        RecordingsError: the folder has none.
    """
    if folder is not None:
        return _part(_from_folder(folder))
    people = _from_packages()
    if not people:
        say("no recordings of other people were found: --others FOLDER gives some to learn from")
    return _part(people)


def _part(people: dict[str, list[Utterance]]) -> Others:
    """Every other person is a stranger, until there are enough of them."""
    names = list(people)
    strangers = names[1::2][:MOST_STRANGERS]
    taught: list[Utterance] = []
    for name in names:
        if name not in strangers:
            share = _first_seconds(people[name], TAUGHT_SECONDS / (len(names) - len(strangers)))
            taught += share
    return Others(taught, {n: _first_seconds(people[n], _STRANGER_SECONDS) for n in strangers})


def _first_seconds(utterances: Sequence[Utterance], wanted: float) -> list[Utterance]:
    kept: list[Utterance] = []
    for utterance in utterances:
        if sum(other.seconds for other in kept) >= wanted:
            break
        kept.append(utterance)
    return kept


def _from_folder(folder: Path) -> dict[str, list[Utterance]]:
    people: dict[str, list[Utterance]] = {}
    for recording in find_recordings(folder):
        person = recording.name.split("/")[0]
        utterances = people.setdefault(person, [])
        if sum(utterance.seconds for utterance in utterances) >= max(
            _STRANGER_SECONDS, _TAUGHT_PER_FILE
        ):
            continue
        try:
            for piece in read_pieces(recording):
                utterances.extend(screen(piece)[0])
        except RecordingsError:
            continue
    return {name: utterances for name, utterances in people.items() if utterances}


def _from_packages() -> dict[str, list[Utterance]]:
    if shutil.which("ffmpeg") is None:
        return {}
    people = {reader.name: _prompts(reader) for reader in READERS if reader.folder.is_dir()}
    return {name: utterances for name, utterances in people.items() if utterances}


def _prompts(reader: Reader) -> list[Utterance]:
    files = sorted((*reader.folder.rglob("*.g722"), *reader.folder.rglob("*.wav")))
    utterances: list[Utterance] = []
    for file in files[:: max(1, len(files) // _PROMPTS_EACH)]:
        utterances += screen(Piece(file.name, 0.0, load(file), RATE))[0]
    return utterances
