"""The corpus as the README's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.robustness.hostile.corpus import Group


def rows(groups: Sequence[Group]) -> Iterator[str]:
    """A row of a Markdown table for every group."""
    for group in groups:
        ends = ", ".join(f"`{end}`" for end in group.ends)
        yield f"| {group.title} | {len(group.files)} | {ends} |"
