"""Judges clips that are converted already, for the page on which an owner listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from training.judges.judging import Character, Judging
from training.judges.recordings import Recording
from training.judges.report import page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from training.judges.panel import Panel
    from training.sound.features import Floats

_CONVERTED = "converted"
_AS_RECORDED = "as recorded"


class Clip(Protocol):
    """A recording at 16 kHz and what a character makes of it."""

    @property
    def name(self) -> str:
        """Of the recording."""

    @property
    def original(self) -> Floats:
        """As recorded."""

    @property
    def converted(self) -> Floats:
        """By the character."""


def judge_clips(
    clips: Mapping[str, Sequence[Clip]], languages: Mapping[str, str], panel: Panel
) -> str:
    """Judge clips and return the table as a part of a page.

    Args:
        clips: of groups of speakers.
        languages: that groups speak; words are not counted of the others.
        panel: who judges.
    """
    converted = {id(clip.original): clip.converted for group in clips.values() for clip in group}
    recordings = [
        Recording(group, clip.name, languages.get(group, ""), clip.original, None)
        for group, some in clips.items()
        for clip in some
    ]
    character = Character(_CONVERTED, lambda wave: converted[id(wave)], None)
    judging = Judging(panel, lambda _done, _total: None)
    rows = judging.judge([character], {_AS_RECORDED: (lambda wave: wave, recordings)})
    return page(rows, panel.missing)
