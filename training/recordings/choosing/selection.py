"""What of a folder of recordings is used, what is not and why, and whether it is enough."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from shared.own_characters.own_character import TrainingErrorCode
from training.quality.similarity import Embedding
from training.recordings.choosing.people import tell_apart
from training.recordings.choosing.reading import Recording, find_recordings, read_pieces
from training.recordings.choosing.screening import (
    CLIPPED,
    ECHO,
    MUSIC,
    NOISE,
    SILENCE,
    TELEPHONE,
    Dropped,
    Utterance,
    is_telephone,
    screen,
)
from training.recordings.runs.errors import RecordingsError
from training.recordings.runs.work import SPOKEN_CONSENT

LEAST_SECONDS = 120.0
RECOMMENDED_SECONDS = 300.0
ENOUGH_SECONDS = 1_200.0
OTHER_VOICE = "another voice"
_JUDGED_ALONE_SECONDS = 20.0
_ADVICE = {
    SILENCE: "most of the rest is silence: record more speech",
    CLIPPED: "most of the rest is clipped: record it again further from the microphone",
    NOISE: "most of the rest is too noisy: record it again in a quiet room",
    MUSIC: "most of the rest is music: record speech without it",
    TELEPHONE: (
        "the rest has telephone quality, nothing above 4 kHz: record it again at 16 kHz or more"
    ),
    OTHER_VOICE: "the rest is in other voices: bring more recordings of the one",
    ECHO: "the rest resounds: record it again closer to the microphone, or among soft things",
}
_CODES = {
    OTHER_VOICE: TrainingErrorCode.ANOTHER_VOICE,
    ECHO: TrainingErrorCode.ECHO,
}


@dataclass(frozen=True)
class Selection:
    """What is used of a folder.

    Attributes:
        utterances: usable speech of one person, in the order of files and time.
        dropped: parts of readable files that are not used.
        unreadable: files that cannot be read, and why.
        left_over: files that were not needed any more.
    """

    utterances: list[Utterance]
    dropped: list[Dropped]
    unreadable: dict[str, str] = field(default_factory=dict)
    left_over: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How much speech is used."""
        return sum(utterance.seconds for utterance in self.utterances)


def select(folder: Path, encoder: Embedding, report: Callable[[str], None]) -> Selection:
    """Read a folder and choose what is used.

    Args:
        folder: with recordings; the spoken consent is none of them.
        encoder: tells voices apart.
        report: is told the name of every file before it is read.

    Raises:
        RecordingsError: there is less than two minutes of usable speech of one person.
    """
    # The spoken consent may be replaced, and a training goes on with what it has chosen before.
    recordings = [
        each for each in find_recordings(folder) if each.path.stem.lower() != SPOKEN_CONSENT
    ]
    selection = _read(recordings, report)
    if selection.unreadable and not selection.utterances and not selection.dropped:
        name, why = next(iter(selection.unreadable.items()))
        raise RecordingsError(
            f"{folder}: expected recordings, found none that can be read; the first, {name}: {why}."
        )
    selection = _without_telephone(selection)
    if selection.utterances:
        selection = _without_others(folder, selection, encoder)
    if selection.seconds < LEAST_SECONDS:
        raise _too_little(folder, selection)
    return selection


def _read(recordings: Sequence[Recording], report: Callable[[str], None]) -> Selection:
    selection = Selection([], [])
    for index, recording in enumerate(recordings):
        if selection.seconds >= ENOUGH_SECONDS:
            selection.left_over.extend(other.name for other in recordings[index:])
            break
        report(recording.name)
        try:
            for piece in read_pieces(recording):
                kept, dropped = screen(piece)
                selection.utterances.extend(kept)
                selection.dropped.extend(dropped)
                if selection.seconds >= ENOUGH_SECONDS:
                    break
        except RecordingsError as error:
            selection.unreadable[recording.name] = str(error)
    return selection


def _without_telephone(selection: Selection) -> Selection:
    """Drop what holds nothing above 4 kHz; long files are judged alone, short ones together."""
    kept: list[Utterance] = []
    dropped = list(selection.dropped)
    for utterances in _judged_together(selection.utterances):
        if is_telephone(utterances):
            dropped += [_drop(utterance, TELEPHONE) for utterance in utterances]
        else:
            kept += utterances
    return Selection(kept, dropped, selection.unreadable, selection.left_over)


def _judged_together(utterances: Sequence[Utterance]) -> Iterator[list[Utterance]]:
    short: list[Utterance] = []
    for _, group in groupby(utterances, key=lambda utterance: utterance.file):
        of_file = list(group)
        if sum(utterance.seconds for utterance in of_file) >= _JUDGED_ALONE_SECONDS:
            yield of_file
        else:
            short += of_file
    if short:
        yield short


def _without_others(folder: Path, selection: Selection, encoder: Embedding) -> Selection:
    people = tell_apart(selection.utterances, encoder)
    flagged = list(zip(selection.utterances, people.owner, strict=True))
    others = [_drop(utterance, OTHER_VOICE) for utterance, is_owner in flagged if not is_owner]
    if people.second_share:
        raise RecordingsError(
            f"{folder}: expected the voice of one person, found two, the second in"
            f" {people.second_share:.0%} of the speech; leave out the recordings of one of them.",
            TrainingErrorCode.ANOTHER_VOICE,
            _files(others, OTHER_VOICE),
        )
    kept = [utterance for utterance, is_owner in flagged if is_owner]
    return Selection(kept, selection.dropped + others, selection.unreadable, selection.left_over)


def _drop(utterance: Utterance, reason: str) -> Dropped:
    return Dropped(utterance.file, utterance.start, utterance.start + utterance.seconds, reason)


def _too_little(folder: Path, selection: Selection) -> RecordingsError:
    found = f"found {clock(selection.seconds)}"
    by_reason = seconds_by_reason(selection.dropped)
    reason = max(by_reason, key=lambda name: by_reason[name], default=None)
    # What was dropped is the reason only if it would have been enough.
    explains = reason is not None and selection.seconds + by_reason[reason] >= LEAST_SECONDS
    advice = _ADVICE.get(reason or "", "") if explains else ""
    code = _CODES.get(reason or "") if explains else None
    files = () if code is None else _files(selection.dropped, reason)
    return RecordingsError(
        f"{folder}: expected at least {clock(LEAST_SECONDS)} minutes of usable speech, {found};"
        f" {advice or f'record more, best {clock(RECOMMENDED_SECONDS)} minutes'}.",
        code or TrainingErrorCode.RECORDINGS_REFUSED,
        files,
    )


def _files(dropped: Sequence[Dropped], reason: str | None) -> Sequence[str]:
    """Return the files of which something was dropped for a reason, each once."""
    return list(dict.fromkeys(part.file for part in dropped if part.reason == reason))


def seconds_by_reason(dropped: Sequence[Dropped]) -> Counter[str]:
    """How much was dropped for each reason."""
    total: Counter[str] = Counter()
    for part in dropped:
        total[part.reason] += part.seconds  # type: ignore[assignment]
    return total


def clock(seconds: float) -> str:
    """Minutes and seconds, such as 4:05."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
