"""Shows the steps of a voice as a waterfall, from the file that the local cloud appends them to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from shared.process.logs import LOCAL_KEY, pseudonym

if TYPE_CHECKING:
    from pathlib import Path

BAR: Final = 40
"""How many characters the longest bar has."""


@dataclass(frozen=True, slots=True)
class Span:
    """A step of a voice.

    Attributes:
        name: what it is called.
        service: the deployable that did it.
        begin: when it began, in seconds since 1970.
        end: when it ended.
        span_id: its own id.
        parent_id: that of the step that it is a part of; None for the first step of a voice.
    """

    name: str
    service: str
    begin: float
    end: float
    span_id: str
    parent_id: str | None


def read_spans(path: Path, voice_id: str) -> list[Span]:
    """Read the steps of a voice from a file of the local cloud, in the order of their begins."""
    trace_id = f"0x{pseudonym(voice_id, LOCAL_KEY)}"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    spans = [_span(line) for line in lines if line["context"]["trace_id"] == trace_id]
    return sorted(spans, key=lambda span: (span.begin, -span.end))


def waterfall(spans: list[Span]) -> list[str]:
    """Draw steps below each other: when each began, how long it took, whose it is."""
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    scale = BAR / max(end - begin, 1e-9)
    parents = {span.span_id: span.parent_id for span in spans}
    lines = []
    for span in spans:
        depth, parent = 0, span.parent_id
        while parent is not None:
            depth, parent = depth + 1, parents.get(parent)
        bar = " " * int((span.begin - begin) * scale) + "█" * max(
            1, round((span.end - span.begin) * scale)
        )
        what = f"{'  ' * depth}{span.service}: {span.name}"
        offset, took = (span.begin - begin) * 1000, (span.end - span.begin) * 1000
        lines.append(f"{what:<42} {offset:7.0f} ms {took:7.1f} ms  {bar}")
    return lines


def _span(line: dict[str, Any]) -> Span:
    return Span(
        line["name"],
        line["resource"]["attributes"]["service.name"],
        datetime.fromisoformat(line["start_time"]).timestamp(),
        datetime.fromisoformat(line["end_time"]).timestamp(),
        line["context"]["span_id"],
        line["parent_id"],
    )
