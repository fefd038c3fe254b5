"""Judges characters by words, naturalness and likeness, and writes the tables into their cards.

    python -m tools.training quality                       # every character
    python -m tools.training quality --character hina --quick

What the judges need and what they judge by is optional: requirements/judges.txt, and
functions/convert/requirements-kokoro.txt with `python -m tools.training.sources.kokoro
.training/kokoro --only judges`. What is not there is named in the cards.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from shared.characters.bundle_files import BundleError
from tools.training.decoder.features import read_speech
from tools.training.judges.converter import BundleConverter, noise, room, telephone
from tools.training.judges.judgement import (
    CharacterJudgement,
    Convert,
    JudgedCharacter,
    markdown,
    page,
    write_judged,
    write_typed,
)
from tools.training.judges.measures import voice_of
from tools.training.judges.panel import gather
from tools.training.judges.strangers import StrangerRecording, english, japanese, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tools.training.decoder.features import Floats
    from tools.training.judges.panel import Panel


CLEAN = "clean"
_REFERENCES = 12
_DISTURBED = 10
_QUICK = 2

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class JudgesFolders:
    """Where things lie.

    Attributes:
        voices: in `voices/ID` recordings of a character's own voice.
    """

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
    is_quick: bool,
    is_live: bool = False,
    is_marked: bool = False,
    clean: int | None = None,
) -> str:
    """Judge characters and write what was found into their cards.

    Args:
        trained_on: returns what a training kept of a character's own voice, at 16 kHz.

    Raises:
        BundleError: a character cannot be read, or not be heard while somebody speaks.
    """
    panel = gather(places.models)
    bundles = _bundles(ids, places.characters)
    characters = []
    for bundle in bundles:
        own = trained_on(bundle.name) or _own(bundle.name, places)
        converter = BundleConverter.of(bundle)
        convert = converter.heard if is_live else converter
        voice = voice_of(_some(own), panel.speakers) if own else None
        characters.append(JudgedCharacter(bundle.name, convert, voice))
        if is_marked:
            characters += [
                JudgedCharacter(f"{bundle.name}, another seed", converter.again, voice),
                JudgedCharacter(f"{bundle.name}, marked", converter.marked, voice),
            ]
    missing = [*panel.missing]
    recordings = japanese(places.judges) + english(places.strangers)
    if not any(recording.language == "ja" for recording in recordings):
        missing.append(
            f"Japanese: no recordings in {places.judges.name}, see tools/training/README.md"
        )
    missing += [f"likeness: no recordings of {c.name}" for c in characters if c.voice is None]
    conditions = _conditions(recordings, is_quick=is_quick)
    if clean is not None:
        conditions = {CLEAN: (_as_it_is, spread(recordings, clean))}
    rows = CharacterJudgement(panel, _report).judge(characters, conditions)
    if not is_live and not is_quick and not is_marked:
        for bundle in bundles:
            write_judged(bundle / "MODEL_CARD.md", markdown(rows, missing, [bundle.name]))
    return markdown(rows, missing)


def judge_typed_text(
    ids: Sequence[str], places: JudgesFolders, page: Path, every: int | None = None
) -> str:
    """Judge typed sentences, each or one of `every`; all of them are written into a page."""
    # Imported here: it needs the packages of Kokoro.
    from tools.training.judges.typed import judge_typed, read_sentences  # noqa: PLC0415

    panel = gather(places.models)
    sentences = {language: lines[::every] for language, lines in read_sentences().items()}
    rows = judge_typed(_bundles(ids, places.characters), sentences, panel, _report)
    tables = markdown(rows, panel.missing)
    if every is None and not ids:
        write_typed(page, tables)
    return tables


def _conditions(
    recordings: list[StrangerRecording], *, is_quick: bool
) -> dict[str, tuple[Convert, list[StrangerRecording]]]:
    clean = spread(recordings, _QUICK) if is_quick else recordings
    some = spread(recordings, _QUICK if is_quick else _DISTURBED)
    return {
        CLEAN: (_as_it_is, clean),
        "noise, 10 dB": (noise(10), some),
        "telephone": (telephone, some),
        "room, 0.4 s": (room, some),
    }


def _as_it_is(wave: Floats) -> Floats:
    return wave


def _bundles(ids: Sequence[str], folder: Path) -> list[Path]:
    found = sorted(file.parent for file in folder.glob("*/character.json"))
    unknown = sorted(set(ids) - {bundle.name for bundle in found})
    if unknown:
        known = ", ".join(bundle.name for bundle in found)
        raise BundleError(f"--character {unknown[0]}: expected one of {known}.")
    return [bundle for bundle in found if not ids or bundle.name in ids]


def _own(name: str, places: JudgesFolders) -> list[Floats]:
    """Some recordings of a character's own voice at 16 kHz; none if there are none."""
    files = [
        file
        for folder in places.voices
        for kind in ("wav", "flac")
        for file in sorted((folder / name).glob(f"*.{kind}"))
    ]
    return [read_speech(file) for file in _some(files)]


def _some(every: Sequence[Kept]) -> Sequence[Kept]:
    return every[:: max(1, len(every) // _REFERENCES)][:_REFERENCES]


def _report(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} recordings judged")
    sys.stderr.flush()


_CONVERTED = "converted"
_AS_RECORDED = "as recorded"


class JudgedClip(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def original(self) -> Floats: ...

    @property
    def converted(self) -> Floats: ...


def judge_clips(
    clips: Mapping[str, Sequence[JudgedClip]], languages: Mapping[str, str], panel: Panel
) -> str:
    converted = {id(clip.original): clip.converted for group in clips.values() for clip in group}
    recordings = [
        StrangerRecording(group, clip.name, languages.get(group, ""), clip.original, None)
        for group, some in clips.items()
        for clip in some
    ]
    character = JudgedCharacter(_CONVERTED, lambda wave: converted[id(wave)], None)
    judging = CharacterJudgement(panel, lambda _done, _total: None)
    rows = judging.judge([character], {_AS_RECORDED: (lambda wave: wave, recordings)})
    return page(rows, panel.missing)
