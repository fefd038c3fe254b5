"""Recordings of other people: to learn from, and to measure with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.recordings.choosing.reading import find_recordings, read_pieces
from training.recordings.choosing.screening import Utterance, screen
from training.recordings.runs.errors import RecordingsError

SHIPPED = Path(__file__).resolve().parents[2] / "people"
"""Sentences of readers of LibriSpeech; its README.md says whose."""
TAUGHT_SECONDS = 1_000.0
MOST_STRANGERS = 10
_STRANGER_SECONDS = 20.0
_READER = "en_"  # as the average voice names the readers that it was trained with
_TAUGHT_PER_FILE = 15.0


@dataclass(frozen=True)
class Others:
    """Other people's speech.

    Attributes:
        taught: whose voices are learnt beside the owner's, by name.
        strangers: who are never learnt, by name; they show what is made of anybody.
    """

    taught: Mapping[str, Sequence[Utterance]]
    strangers: dict[str, list[Utterance]]


def find_others(folder: Path | None) -> Others:
    """Read other people's recordings from a folder, or those that come with the training.

    In a folder with folders in it each is a person, otherwise each file is.

    Raises:
        RecordingsError: the folder has none.
    """
    if folder is not None:
        return _part(_from_folder(folder))
    heard, strangers = (_from_folder(SHIPPED / part) for part in ("heard", "strangers"))
    return Others({f"{_READER}{name}": one for name, one in heard.items()}, strangers)


def readers_in(folder: Path) -> dict[str, list[Utterance]]:
    """Read more people to learn from, named as the average voice names readers of LibriSpeech.

    Each file or subfolder is a person, whose number is what comes before the first hyphen of the
    name. Who is among the strangers that characters are measured with is left out.
    """
    strangers = {file.stem for file in (SHIPPED / "strangers").iterdir()}
    numbered: dict[str, list[Utterance]] = {}
    for name, utterances in _from_folder(folder).items():
        number = name.split("-")[0]
        if number not in strangers:
            numbered.setdefault(f"{_READER}{number}", []).extend(utterances)
    return numbered


def _part(people: dict[str, list[Utterance]]) -> Others:
    """Every other person is a stranger, until there are enough of them."""
    names = list(people)
    strangers = names[1::2][:MOST_STRANGERS]
    most = TAUGHT_SECONDS / (len(names) - len(strangers))
    taught = {n: _first_seconds(people[n], most) for n in names if n not in strangers}
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
        person = Path(recording.name).parts[0].removesuffix(recording.path.suffix)
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
