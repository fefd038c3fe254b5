"""Select usable speech of a folder, with the reasons for the rest."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from shared.characters.own.own_character import TrainingErrorCode
from shared.speech.signal.samples import resample
from tools.training.decoder.features import RATE
from tools.training.judges.measures import Embedding
from tools.training.recordings.usable_speech import (
    CLIPPED,
    ECHO,
    MUSIC,
    NOISE,
    SILENCE,
    TELEPHONE,
    DroppedSpeech,
    OwnerRecording,
    Utterance,
    find_recordings,
    is_telephone,
    read_pieces,
    recording_seconds,
    screen,
)
from tools.training.recordings.work_folder import SPOKEN_CONSENT, RecordingsError, clock

GROUP_SECONDS = 3.0
_SAME_PERSON = 0.66
OWNER_LIKENESS = 0.78  # the least cosine of 3 s of speech and the mean of its speaker
_LESS_PER_SECOND = 0.04
_SECOND_SHARE = 0.2
_SECOND_SECONDS = 15.0


SAMPLED_GROUPS = 30  # spread over all recordings, they tell whose these are
_MOST_SECONDS_HEARD = 5.0  # of each group; 3 s tell who speaks


@dataclass(frozen=True)
class SelectionSteps:
    """Callbacks of a selection: for its progress, and to keep what is made under a name."""

    begin: Callable[[str], None] = lambda _: None
    report: Callable[[float, float, str], None] = lambda *_: None
    keep: Callable[[str, Callable[[], Any]], Any] = lambda _, make: make()


def tell_apart(
    utterances: Sequence[Utterance], encoder: Embedding, steps: SelectionSteps
) -> tuple[NDArray[np.bool_], float]:
    """Return whether each utterance is in the voice that is heard most.

    Also the share of the time of the voice that is heard most beside it, if that is enough to doubt
    whose the recordings are; otherwise 0.

    3 s of one person and that person's mean have a cosine of at least 0.82, 3 s of somebody else
    of at most 0.81 (13 people, the nearest of the same sex and language). Of long recordings a
    sample of the groups is heard, and all of a file's groups if its sample has another voice.
    """
    every = list(groups_of(utterances))
    sample = every[:: -(-len(every) // SAMPLED_GROUPS)]
    is_owner, second_share = hear_voices(utterances, sample, encoder, steps)
    owner = np.ones(len(utterances), np.bool_)
    mixed = {
        utterances[group[0]].file for group, own in zip(sample, is_owner, strict=True) if not own
    }
    if len(sample) < len(every) and mixed:
        sample = [group for group in every if utterances[group[0]].file in mixed or group in sample]
        is_owner, second_share = hear_voices(utterances, sample, encoder, steps)
    for group, is_theirs in zip(sample, is_owner, strict=True):
        owner[group] = is_theirs
    return owner, second_share


def hear_voices(
    utterances: Sequence[Utterance],
    groups: Sequence[list[int]],
    encoder: Embedding,
    steps: SelectionSteps,
) -> tuple[NDArray[np.bool_], float]:
    heard = []
    for number, group in enumerate(groups):
        first = utterances[group[0]]
        waves = [resample(utterances[i].samples, utterances[i].rate, RATE) for i in group]
        wave = np.concatenate(waves)[: int(_MOST_SECONDS_HEARD * RATE)]
        name = f"voice {first.file} {first.start:.2f} {len(wave)}"
        heard.append(steps.keep(name, partial(encoder.embed, wave)))
        steps.report(number + 1, len(groups), "")
    embeddings = np.stack(heard)
    seconds = np.array([sum(utterances[i].seconds for i in group) for group in groups])
    voices = np.zeros(len(embeddings), np.intp)
    if len(embeddings) > 1:
        tree = linkage(embeddings, "average", metric="cosine")
        voices = fcluster(tree, 1 - _SAME_PERSON, "distance") - 1
    totals = np.bincount(voices, weights=seconds)
    centre = embeddings[voices == totals.argmax()].mean(0)
    # Short words say less about who speaks them.
    wanted = OWNER_LIKENESS - _LESS_PER_SECOND * np.maximum(GROUP_SECONDS - seconds, 0)
    is_owner = embeddings @ (centre / np.linalg.norm(centre)) >= wanted
    others = np.bincount(voices[~is_owner], weights=seconds[~is_owner], minlength=1)
    second = float(others.max(initial=0.0))
    doubtful = second >= _SECOND_SECONDS and second >= _SECOND_SHARE * seconds.sum()
    return is_owner, second / float(seconds.sum()) if doubtful else 0.0


def groups_of(utterances: Sequence[Utterance]) -> Iterator[list[int]]:
    group: list[int] = []
    seconds = 0.0
    for index, utterance in enumerate(utterances):
        if group and utterances[group[-1]].file != utterance.file and seconds >= 1:
            yield group
            group, seconds = [], 0.0
        group.append(index)
        seconds += utterance.seconds
        if seconds >= GROUP_SECONDS:
            yield group
            group, seconds = [], 0.0
    if group:
        yield group


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
_CODES = {OTHER_VOICE: TrainingErrorCode.ANOTHER_VOICE, ECHO: TrainingErrorCode.ECHO}


@dataclass(frozen=True)
class Selection:
    utterances: list[Utterance]
    dropped: list[DroppedSpeech]
    unreadable: dict[str, str] = field(default_factory=dict)
    left_over: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(utterance.seconds for utterance in self.utterances)


def select(folder: Path, encoder: Embedding, steps: SelectionSteps | None = None) -> Selection:
    """Choose usable speech of one person; RecordingsError if it is less than two minutes."""
    steps = steps or SelectionSteps()
    # The spoken consent may be replaced, and a training goes on with what it has chosen before.
    recordings = [
        each for each in find_recordings(folder) if each.path.stem.lower() != SPOKEN_CONSENT
    ]
    selection = read_speech(recordings, steps)
    if selection.unreadable and not selection.utterances and not selection.dropped:
        name, why = next(iter(selection.unreadable.items()))
        raise RecordingsError(
            f"{folder}: expected recordings, found none that can be read; the first, {name}: {why}."
        )
    selection = without_telephone(selection)
    if selection.utterances:
        selection = without_others(folder, selection, encoder, steps)
    if selection.seconds < LEAST_SECONDS:
        raise too_little(folder, selection)
    return selection


def read_speech(recordings: Sequence[OwnerRecording], steps: SelectionSteps) -> Selection:
    selection = Selection([], [])
    lengths = [recording_seconds(each) for each in recordings]
    total = min(sum(lengths), ENOUGH_SECONDS)
    done = 0.0
    steps.begin("reading")
    for index, recording in enumerate(recordings):
        if selection.seconds >= ENOUGH_SECONDS:
            selection.left_over.extend(other.name for other in recordings[index:])
            break
        steps.report(done, total, recording.name)
        try:
            for piece in read_pieces(recording):
                name = f"speech {recording.name} {piece.start:.2f}"
                kept, dropped = steps.keep(name, partial(screen, piece))
                end = piece.start + len(piece.samples) / piece.rate
                steps.report(min(done + end, total), total, recording.name)
                selection.utterances.extend(kept)
                selection.dropped.extend(dropped)
                if selection.seconds >= ENOUGH_SECONDS:
                    break
        except RecordingsError as error:
            selection.unreadable[recording.name] = str(error)
        done += lengths[index]
    return selection


def without_telephone(selection: Selection) -> Selection:
    """Drop what holds nothing above 4 kHz; long files are judged alone, short ones together."""
    together: dict[str, list[Utterance]] = {}
    for name, group in groupby(selection.utterances, key=lambda utterance: utterance.file):
        of_file = list(group)
        is_long = sum(utterance.seconds for utterance in of_file) >= _JUDGED_ALONE_SECONDS
        together.setdefault(name if is_long else "", []).extend(of_file)
    kept: list[Utterance] = []
    dropped = list(selection.dropped)
    for utterances in together.values():
        if is_telephone(utterances):
            dropped += [drop(utterance, TELEPHONE) for utterance in utterances]
        else:
            kept += utterances
    return replace(selection, utterances=kept, dropped=dropped)


def without_others(
    folder: Path, selection: Selection, encoder: Embedding, steps: SelectionSteps
) -> Selection:
    steps.begin("comparing voices")
    is_owners, second_share = tell_apart(selection.utterances, encoder, steps)
    flagged = list(zip(selection.utterances, is_owners, strict=True))
    others = [drop(utterance, OTHER_VOICE) for utterance, is_owner in flagged if not is_owner]
    if second_share:
        raise RecordingsError(
            f"{folder}: expected the voice of one person, found two, the second in"
            f" {second_share:.0%} of the speech; leave out the recordings of one of them.",
            TrainingErrorCode.ANOTHER_VOICE,
            files_dropped_for(others, OTHER_VOICE),
        )
    kept = [utterance for utterance, is_owner in flagged if is_owner]
    return replace(selection, utterances=kept, dropped=selection.dropped + others)


def drop(utterance: Utterance, reason: str) -> DroppedSpeech:
    return DroppedSpeech(
        utterance.file, utterance.start, utterance.start + utterance.seconds, reason
    )


def too_little(folder: Path, selection: Selection) -> RecordingsError:
    found = f"found {clock(selection.seconds)}"
    by_reason = seconds_by_reason(selection.dropped)
    reason = max(by_reason, key=lambda name: by_reason[name], default=None)
    # What was dropped is the reason only if it would have been enough.
    explains = reason is not None and selection.seconds + by_reason[reason] >= LEAST_SECONDS
    advice = _ADVICE.get(reason or "", "") if explains else ""
    code = _CODES.get(reason or "") if explains else None
    files = () if code is None else files_dropped_for(selection.dropped, reason)
    return RecordingsError(
        f"{folder}: expected at least {clock(LEAST_SECONDS)} minutes of usable speech, {found};"
        f" {advice or f'record more, best {clock(RECOMMENDED_SECONDS)} minutes'}.",
        code or TrainingErrorCode.RECORDINGS_REFUSED,
        files,
    )


def files_dropped_for(dropped: Sequence[DroppedSpeech], reason: str | None) -> Sequence[str]:
    return list(dict.fromkeys(part.file for part in dropped if part.reason == reason))


def seconds_by_reason(dropped: Sequence[DroppedSpeech]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in dropped:
        total[part.reason] += part.seconds  # type: ignore[assignment]
    return total


SHIPPED = Path(__file__).resolve().parents[1] / "people"
"""Sentences of readers of LibriSpeech; its README.md says whose."""
TAUGHT_SECONDS = 1_000.0
MOST_STRANGERS = 10
_STRANGER_SECONDS = 20.0
_READER = "en_"  # as the average voice names the readers that it was trained with
_TAUGHT_PER_FILE = 15.0


@dataclass(frozen=True)
class OtherPeople:
    taught: Mapping[str, Sequence[Utterance]]
    strangers: dict[str, list[Utterance]]


def find_others(folder: Path | None) -> OtherPeople:
    """Read other people's recordings from a folder, or those that come with the training.

    In a folder with folders in it each is a person, otherwise each file is. Every other person is
    a stranger, until there are enough of them.
    """
    if folder is not None:
        people = people_in(folder)
        names = list(people)
        strange = names[1::2][:MOST_STRANGERS]
        most = TAUGHT_SECONDS / (len(names) - len(strange))
        taught = {name: first_seconds(people[name], most) for name in names if name not in strange}
        return OtherPeople(
            taught, {name: first_seconds(people[name], _STRANGER_SECONDS) for name in strange}
        )
    heard, strangers = (people_in(SHIPPED / part) for part in ("heard", "strangers"))
    return OtherPeople({f"{_READER}{name}": one for name, one in heard.items()}, strangers)


def readers_in(folder: Path) -> dict[str, list[Utterance]]:
    """Read more people to learn from, named as the average voice names readers of LibriSpeech.

    Each file or subfolder is a person, whose number is what comes before the first hyphen of the
    name. Who is among the strangers that characters are measured with is left out.
    """
    strangers = {file.stem for file in (SHIPPED / "strangers").iterdir()}
    numbered: dict[str, list[Utterance]] = {}
    for name, utterances in people_in(folder).items():
        number = name.split("-")[0]
        if number not in strangers:
            numbered.setdefault(f"{_READER}{number}", []).extend(utterances)
    return numbered


def first_seconds(utterances: Sequence[Utterance], wanted: float) -> list[Utterance]:
    kept: list[Utterance] = []
    for utterance in utterances:
        if sum(other.seconds for other in kept) >= wanted:
            break
        kept.append(utterance)
    return kept


def people_in(folder: Path) -> dict[str, list[Utterance]]:
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
