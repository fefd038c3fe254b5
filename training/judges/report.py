"""Tables of what the judges said, as Markdown and as HTML."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from training.judges.judging import AS_SPOKEN, Key, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FIGURES = (
    ("DNSMOS overall", "overall"),
    ("signal", "signal"),
    ("P.808", "p808"),
    ("Distill-MOS", "distillmos"),
    ("likeness", "likeness"),
    ("left of the source", "left"),
)
_EXPLANATION = (
    "Wrong: characters of Japanese, words of English, as Whisper base understands them; of English,"
    " what differs from how it understands the recording as spoken. DNSMOS and Distill-MOS guess"
    " listeners' marks from 1 to 5. Likeness is the cosine to the character's own voice, left of"
    " the source to the speaker, both heard by Resemblyzer. Pitch is the correlation of log f0 with"
    " the speaker's; drop-out is the longest silence in place of a voiced sound."
)


def table(rows: Mapping[Key, Row], names: Sequence[str] = ()) -> list[list[str]]:
    """Return headings and lines: conditions, groups, and who converted.

    Args:
        rows: what was judged.
        names: whom to show beside what was spoken; everybody if none is named.
    """
    headings = ["recording", "speakers", "converted by", "wrong", "of"]
    headings += [heading for heading, _ in _FIGURES] + ["pitch", "longest drop-out"]
    lines = [headings]
    for (condition, group, name), row in rows.items():
        if names and name not in {AS_SPOKEN, *names}:
            continue
        lines.append(
            [
                condition, group, name,
                _percent(row.words.share), str(row.words.said or "-"),
                *(_figure(row.mean(figure)) for _, figure in _FIGURES),
                _figure(row.mean("melody"), ".3f"),
                "-" if math.isnan(row.greatest("dropout")) else f"{row.greatest('dropout'):.0f} ms",
            ]
        )  # fmt: skip
    return lines


def markdown(rows: Mapping[Key, Row], missing: Iterable[str], names: Sequence[str] = ()) -> str:
    """Return the table with what it means and what is missing."""
    headings, *lines = table(rows, names)
    drawn = [headings, ["---"] * len(headings), *lines]
    text = "\n".join(f"| {' | '.join(line)} |" for line in drawn)
    return "\n\n".join([_EXPLANATION, text, *_absent(missing)])


def page(rows: Mapping[Key, Row], missing: Iterable[str]) -> str:
    """Return the same as a part of a page."""
    headings, *lines = table(rows)
    head = "".join(f"<th>{html.escape(cell)}" for cell in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in line)}</tr>" for line in lines
    )
    notes = "".join(f"<p>{html.escape(note)}" for note in (_EXPLANATION, *_absent(missing)))
    return f"<h2>What programs hear</h2><table><tr>{head}</tr>{body}</table>{notes}"


def _absent(missing: Iterable[str]) -> list[str]:
    named = "; ".join(missing)
    return [f"Not measured: {named}."] if named else []


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _figure(value: float, form: str = ".2f") -> str:
    return "-" if math.isnan(value) else format(value, form)
