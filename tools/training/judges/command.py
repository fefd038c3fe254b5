"""Judges characters by words, naturalness and likeness, and writes the tables into their cards.

    python -m tools.training quality                       # every character
    python -m tools.training quality --character hina --sentences 2
    python -m tools.training quality --character hina --listen

What the judges need and what they judge by is optional: requirements/judges.txt, and
functions/convert/requirements-kokoro.txt with `python -m tools.training.sources.kokoro
.training/kokoro --only judges`. What is not there is named in the cards.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

from shared.characters.bundle_files import BundleError
from shared.speech.signal.samples import resample
from tools.training.decoder.features import RATE, Floats, read_speech
from tools.training.judges import typed
from tools.training.judges.blind_pairs import SECONDS, TRIALS, BlindPair, write_page
from tools.training.judges.converter import BundleConverter, noise, room, telephone
from tools.training.judges.judgement import (
    AS_SPOKEN,
    JUDGED_BEGIN,
    JUDGED_END,
    TYPED_BEGIN,
    TYPED_END,
    CharacterJudgement,
    Convert,
    JudgedCharacter,
    Key,
    Row,
    markdown,
    write_between,
)
from tools.training.judges.measures import voice_of
from tools.training.judges.panel import gather
from tools.training.judges.strangers import StrangerRecording, english, japanese, spread

SENTENCES = 40
_FEWEST_OF_A_CARD = 10
_DISTURBED_SHARE = 6  # one of so many is also judged with noise, over a telephone and in a room
_REFERENCES = 12

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class JudgesFolders:
    """Where things lie; `ID` in `voices` has recordings of a character's own voice."""

    characters: Path
    strangers: Path
    judges: Path
    voices: Sequence[Path]
    models: Path


def judge(
    ids: Sequence[str],
    places: JudgesFolders,
    trained_on: Callable[[str], Sequence[Floats]],
    *,
    sentences: int = SENTENCES,
    is_live: bool = False,
    is_marked: bool = False,
) -> str:
    """Judge characters by so many sentences of each speaker, and write it into their cards.

    Fewer than ten are too few for a card. `trained_on` returns what a training kept of a
    character's own voice, at 16 kHz.
    """
    panel = gather(places.models)
    bundles = bundles_of(ids, places.characters)
    characters = []
    for bundle in bundles:
        own = trained_on(bundle.name) or own_voice(bundle.name, places)
        converter = BundleConverter.of(bundle)
        convert = converter.heard if is_live else converter
        encoders = panel.speakers.items() if own else ()
        voices = {name: voice_of(some_of(own), encoder) for name, encoder in encoders}
        characters.append(JudgedCharacter(bundle.name, convert, voices))
        if is_marked:
            characters += [
                JudgedCharacter(f"{bundle.name}, another seed", converter.again, voices),
                JudgedCharacter(f"{bundle.name}, marked", converter.marked, voices),
            ]
    missing = [*panel.missing]
    recordings = strangers(places)
    if not any(recording.language == "ja" for recording in recordings):
        missing.append(f"Japanese: no recordings in {places.judges}, see tools/training/README.md")
    missing += [f"likeness: no recordings of {c.name}" for c in characters if not c.voices]
    conditions: dict[str, tuple[Convert, list[StrangerRecording]]] = {
        "clean": (as_it_is, spread(recordings, sentences))
    }
    if not is_marked:
        some = spread(recordings, -(-sentences // _DISTURBED_SHARE))
        disturbances = {"noise, 10 dB": noise(10), "telephone": telephone, "room, 0.4 s": room}
        conditions |= {name: (disturb, some) for name, disturb in disturbances.items()}
    rows = CharacterJudgement(panel, _report).judge(characters, conditions)
    if sentences >= _FEWEST_OF_A_CARD and not is_live and not is_marked:
        for bundle in bundles:
            found = markdown(rows, missing, [bundle.name])
            write_between(bundle / "MODEL_CARD.md", found, JUDGED_BEGIN, JUDGED_END)
    return markdown(rows, missing)


def strangers(places: JudgesFolders) -> list[StrangerRecording]:
    return japanese(places.judges) + english(places.strangers)


def write_blind_pairs(name: str, places: JudgesFolders, against: Path | None) -> Path:
    """Write a page that compares a character with another bundle, or with people as they spoke.

    Of people nothing above 8 kHz is known, so that nothing above it is played of either.
    """
    (bundle,) = bundles_of([name], places.characters)
    ours = BundleConverter.of(bundle)
    theirs = against and BundleConverter.of(against)
    rate = ours.engine.sample_rate if theirs else RATE
    recordings = strangers(places)
    groups = len({recording.group for recording in recordings})
    pairs = []
    for one in islice(cycle(spread(recordings, -(-TRIALS // max(1, groups)))), TRIALS):
        wave = one.wave[: round(SECONDS * RATE)]
        if theirs:
            other = resample(theirs.raw(wave), theirs.engine.sample_rate, rate)
            sounds = {name: ours.raw(wave), str(against): other}
        else:
            sounds = {name: ours(wave), AS_SPOKEN: wave}
        pairs.append(BlindPair(f"{one.group}, {one.name}", sounds))
    page = places.models / f"listen-{name}.html"
    write_page(page, f"{name}: which sounds more natural?", pairs, rate)
    return page


def judge_typed_text(
    ids: Sequence[str], places: JudgesFolders, page: Path, every: int | None = None
) -> str:
    panel = gather(places.models)
    sentences = {language: lines[::every] for language, lines in typed.read_sentences().items()}
    bundles = bundles_of(ids, places.characters)
    rows = typed.judge_typed(bundles, sentences, panel, _report)
    if not ids:
        write_typed(rows, panel.missing, bundles, page)
    return markdown(rows, panel.missing, (), typed.EXPLANATION)


def write_typed(
    rows: Mapping[Key, Row], missing: Sequence[str], bundles: Sequence[Path], page: Path
) -> None:
    """Write the rows of all characters into a page, and those of each into its card."""
    files = [(page, ())] + [(bundle / "MODEL_CARD.md", (bundle.name,)) for bundle in bundles]
    for file, names in files:
        write_between(
            file, markdown(rows, missing, names, typed.EXPLANATION), TYPED_BEGIN, TYPED_END
        )


def as_it_is(wave: Floats) -> Floats:
    return wave


def bundles_of(ids: Sequence[str], folder: Path) -> list[Path]:
    found = sorted(file.parent for file in folder.glob("*/character.json"))
    unknown = sorted(set(ids) - {bundle.name for bundle in found})
    if unknown:
        known = ", ".join(bundle.name for bundle in found)
        raise BundleError(f"--character {unknown[0]}: expected one of {known}.")
    return [bundle for bundle in found if not ids or bundle.name in ids]


def own_voice(name: str, places: JudgesFolders) -> list[Floats]:
    files = [
        file
        for folder in places.voices
        for kind in ("wav", "flac")
        for file in sorted((folder / name).glob(f"*.{kind}"))
    ]
    return [read_speech(file) for file in some_of(files)]


def some_of(every: Sequence[Kept]) -> Sequence[Kept]:
    return every[:: max(1, len(every) // _REFERENCES)][:_REFERENCES]


def _report(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} recordings judged")
    sys.stderr.flush()
