"""Figures of characters by their judges, and the tables of them."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np

from tools.training.decoder.features import Floats
from tools.training.judges import measures
from tools.training.judges.panel import DIRECTIONS, RESEMBLYZER, Panel
from tools.training.judges.strangers import StrangerRecording

_WITHOUT_SPACES = frozenset({"ja"})
_SIGNS = frozenset("PSC")


@dataclass(frozen=True)
class ErrorRate:
    wrong: int = 0
    said: int = 0

    def __add__(self, other: "ErrorRate") -> "ErrorRate":
        return ErrorRate(self.wrong + other.wrong, self.said + other.said)

    @property
    def share(self) -> float:
        return self.wrong / self.said if self.said else float("nan")


def units(text: str, language: str) -> list[str]:
    """Part a text into what is counted: characters of Japanese, words of other languages.

    Width, case, punctuation and, in Japanese, spaces do not count.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(c for c in folded if c.isspace() or unicodedata.category(c)[0] not in _SIGNS)
    return list("".join(kept.split())) if language in _WITHOUT_SPACES else kept.split()


def compare(said: str, understood: str, language: str) -> ErrorRate:
    wanted, found = units(said, language), units(understood, language)
    return ErrorRate(edits(wanted, found), len(wanted))


def edits(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Count what is inserted, deleted and replaced between two rows (V. I. Levenshtein, 1966)."""
    above = list(range(len(found) + 1))
    for row, one in enumerate(wanted, 1):
        current = [row]
        for column, other in enumerate(found, 1):
            current.append(
                min(above[column] + 1, current[-1] + 1, above[column - 1] + (one != other))
            )
        above = current
    return above[-1]


AS_SPOKEN = "as spoken"
Convert = Callable[["Floats"], "Floats"]
Key = tuple[str, str, str]  # condition, group, and who converted; AS_SPOKEN if nobody did


@dataclass
class Figures:
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **figures: float) -> None:
        for name, value in figures.items():
            self.values.setdefault(name, []).append(value)

    def mean(self, name: str) -> float:
        known = [value for value in self.values.get(name, ()) if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    def greatest(self, name: str) -> float:
        return max(self.values.get(name, ()), default=float("nan"))


@dataclass
class Row(Figures):
    words: ErrorRate = field(default_factory=ErrorRate)
    phones: ErrorRate = field(default_factory=ErrorRate)


@dataclass(frozen=True)
class JudgedCharacter:
    """A character, and its own voice as each encoder of speakers hears it, where it is known."""

    name: str
    convert: Convert
    voices: Mapping[str, Floats]


class CharacterJudgement:
    def __init__(self, panel: Panel, report: Callable[[int, int], None]) -> None:
        self._panel = panel
        self._report = report

    def judge(
        self,
        characters: Iterable[JudgedCharacter],
        conditions: Mapping[str, tuple[Convert, list[StrangerRecording]]],
    ) -> dict[Key, Row]:
        cast = list(characters)
        rows: dict[Key, Row] = {}
        total = sum(len(recordings) for _, recordings in conditions.values())
        done = 0
        for condition, (disturb, recordings) in conditions.items():
            for recording in recordings:
                said = self._said(recording)
                disturbed = disturb(recording.wave)
                sources = self._embed(disturbed)
                melody = measures.analyse(recording.wave)
                key = (condition, recording.group)
                spoken = rows.setdefault((*key, AS_SPOKEN), Row())
                self._add(spoken, disturbed, said, recording)
                for one in cast:
                    row = rows.setdefault((*key, one.name), Row())
                    converted = one.convert(disturbed)
                    self._add(row, converted, said, recording)
                    for encoder, voice in self._embed(converted).items():
                        row.add(**{f"left {encoder}": float(sources[encoder] @ voice)})
                        if encoder in one.voices:
                            row.add(**{f"likeness {encoder}": float(voice @ one.voices[encoder])})
                    found = measures.analyse(converted)
                    row.add(
                        melody=measures.melody_correlation(melody, found),
                        dropout=measures.longest_dropout_ms(melody, found),
                    )
                done += 1
                self._report(done, total)
        return rows

    def _embed(self, wave: Floats) -> dict[str, Floats]:
        return {name: encoder.embed(wave) for name, encoder in self._panel.speakers.items()}

    def _said(self, recording: StrangerRecording) -> str | None:
        recogniser = self._panel.recogniser
        if recording.text is not None or recogniser is None or not recording.language:
            return recording.text
        return recogniser.understand(recording.wave, recording.language)

    def _add(self, row: Row, wave: Floats, said: str | None, recording: StrangerRecording) -> None:
        language = recording.language
        if said is not None and self._panel.recogniser is not None:
            row.words += compare(said, self._panel.recogniser.understand(wave, language), language)
        if self._panel.phones is not None:
            original, heard = (
                self._panel.phones.understand(one, language) for one in (recording.wave, wave)
            )
            row.phones += compare(original, heard, "")  # parted by spaces, as words are
        for judge in self._panel.naturalness:
            row.add(**judge.judge(wave))


_FIGURES = (
    ("Distill-MOS", "distillmos"),
    ("DNSMOS overall", "overall"),
    ("P.808", "p808"),
    ("likeness", f"likeness {RESEMBLYZER}"),
    ("by d-vectors", f"likeness {DIRECTIONS}"),
    ("left of the source", f"left {RESEMBLYZER}"),
    ("by d-vectors", f"left {DIRECTIONS}"),
)
_EXPLANATION = (
    "Wrong: characters of Japanese, words of English, as Whisper base understands them; of English,"
    " what differs from how it understands the recording as spoken. Phones: what differs from the"
    " phones that hama hears in the recording as spoken; it shares nothing with Whisper, whose"
    " encoder the characters hear with. Distill-MOS and DNSMOS guess listeners' marks from 1 to 5."
    " Likeness is the cosine to the character's own voice, left of the source to the speaker, each"
    " heard by Resemblyzer and by another encoder of speakers. Pitch is the correlation of log f0"
    " with the speaker's; drop-out is the longest silence in place of a voiced sound."
)


def table(rows: Mapping[Key, Row], names: Sequence[str] = ()) -> list[list[str]]:
    headings = ["recording", "speakers", "converted by", "wrong", "of", "phones"]
    headings += [heading for heading, _ in _FIGURES] + ["pitch", "longest drop-out"]
    lines = [headings]
    for (condition, group, name), row in rows.items():
        if names and name not in {AS_SPOKEN, *names}:
            continue
        lines.append(
            [
                condition, group, name,
                format_figure(row.words.share, ".1%"), str(row.words.said or "-"),
                format_figure(row.phones.share, ".1%"),
                *(format_figure(row.mean(figure)) for _, figure in _FIGURES),
                format_figure(row.mean("melody"), ".3f"),
                format_figure(row.greatest("dropout"), ".0f", " ms"),
            ]
        )  # fmt: skip
    known = [any(line[column] != "-" for line in lines[1:]) for column in range(len(headings))]
    return [list(compress(line, known)) for line in lines]


def markdown(
    rows: Mapping[Key, Row],
    missing: Iterable[str],
    names: Sequence[str] = (),
    explanation: str = _EXPLANATION,
) -> str:
    headings, *lines = table(rows, names)
    drawn = [headings, ["---"] * len(headings), *lines]
    text = "\n".join(f"| {' | '.join(line)} |" for line in drawn)
    return "\n\n".join([explanation, text, *missing_note(missing)])


def missing_note(missing: Iterable[str]) -> list[str]:
    named = "; ".join(missing)
    return [f"Not measured: {named}."] if named else []


def format_figure(value: float, form: str = ".2f", unit: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{form}}{unit}"


JUDGED_BEGIN = "<!-- judged: begin (written by `nox -s quality`) -->"
JUDGED_END = "<!-- judged: end -->"


TYPED_BEGIN = "<!-- typed: begin (written by `nox -s quality -- --typed`) -->"
TYPED_END = "<!-- typed: end -->"


def write_between(file: Path, tables: str, begin: str, end: str) -> None:
    """Put tables between the markers of a file; what lacks is begun: the file, or both markers."""
    text = (
        file.read_text(encoding="utf-8") if file.exists() else f"# Model card\n\n{begin}\n{end}\n"
    )
    if (begin in text) != (end in text):
        raise ValueError(f"{file}: expected both markers of the measured part, found one")
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    file.write_text(f"{before}{begin}\n\n{tables}\n\n{end}{after}", encoding="utf-8")
