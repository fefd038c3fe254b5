"""What the judges say of recordings, as they are and as characters convert them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from training.judges.words import ErrorRate, compare
from training.quality import measures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from training.judges.panel import Panel
    from training.judges.recordings import Recording
    from training.sound.features import Floats

AS_SPOKEN = "as spoken"
Convert = Callable[["Floats"], "Floats"]
Key = tuple[str, str, str]
"""Condition, group, and who converted; AS_SPOKEN if nobody did."""


@dataclass
class Row:
    """The figures of one group's recordings.

    Attributes:
        words: what was understood wrongly.
        marks: figures of each recording by their names.
    """

    words: ErrorRate = field(default_factory=ErrorRate)
    marks: dict[str, list[float]] = field(default_factory=dict)

    def add(self, marks: Mapping[str, float]) -> None:
        """Add a recording's figures."""
        for name, value in marks.items():
            self.marks.setdefault(name, []).append(value)

    def mean(self, name: str) -> float:
        """Return the mean of a figure over the recordings that have it; otherwise not a number."""
        known = [value for value in self.marks.get(name, ()) if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    def greatest(self, name: str) -> float:
        """Return the greatest of a figure; otherwise not a number."""
        return max(self.marks.get(name, ()), default=float("nan"))


@dataclass(frozen=True)
class Character:
    """Somebody whose conversions are judged.

    Attributes:
        name: of the character.
        convert: takes and gives 16 kHz.
        voice: how the character itself sounds, an embedding; None if nothing of it is there.
    """

    name: str
    convert: Convert
    voice: Floats | None


class Judging:
    """Lets a panel judge, and keeps what it said of recordings as they are.

    Args:
        panel: who judges.
        report: is told how far it is: how many of how many.
    """

    def __init__(self, panel: Panel, report: Callable[[int, int], None]) -> None:
        self._panel = panel
        self._report = report
        self._understood: dict[tuple[str, str], str] = {}

    def judge(
        self,
        characters: Iterable[Character],
        conditions: Mapping[str, tuple[Convert, list[Recording]]],
    ) -> dict[Key, Row]:
        """Judge every character in every condition, and what was spoken beside them.

        Args:
            characters: who convert.
            conditions: what happens to the recordings on their way, and which ones.
        """
        cast = list(characters)
        rows: dict[Key, Row] = {}
        total = sum(len(recordings) for _, recordings in conditions.values())
        done = 0
        for condition, (disturb, recordings) in conditions.items():
            for recording in recordings:
                said = self._said(recording)
                disturbed = disturb(recording.wave)
                source = self._panel.speakers.embed(disturbed)
                melody = measures.analyse(recording.wave)
                key = (condition, recording.group)
                spoken = rows.setdefault((*key, AS_SPOKEN), Row())
                self._add(spoken, disturbed, said, recording.language)
                for one in cast:
                    row = rows.setdefault((*key, one.name), Row())
                    converted = one.convert(disturbed)
                    self._add(row, converted, said, recording.language)
                    row.add(self._likeness(one, source, converted))
                    found = measures.analyse(converted)
                    row.add(
                        {
                            "melody": measures.melody_correlation(melody, found),
                            "dropout": measures.longest_dropout_ms(melody, found),
                        }
                    )
                done += 1
                self._report(done, total)
        return rows

    def _said(self, recording: Recording) -> str | None:
        """What was said: as written, or as it is understood of the recording as it is."""
        recogniser = self._panel.recogniser
        if recording.text is not None or recogniser is None or not recording.language:
            return recording.text
        key = (recording.group, recording.name)
        if key not in self._understood:
            self._understood[key] = recogniser.understand(recording.wave, recording.language)
        return self._understood[key]

    def _add(self, row: Row, wave: Floats, said: str | None, language: str) -> None:
        if said is not None and self._panel.recogniser is not None:
            row.words += compare(said, self._panel.recogniser.understand(wave, language), language)
        for judge in self._panel.naturalness:
            row.add(judge.judge(wave))

    def _likeness(
        self, character: Character, source: Floats, converted: Floats
    ) -> dict[str, float]:
        found = self._panel.speakers.embed(converted)
        marks = {"left": float(source @ found)}
        if character.voice is not None:
            marks["before"] = float(source @ character.voice)
            marks["likeness"] = float(found @ character.voice)
        return marks
