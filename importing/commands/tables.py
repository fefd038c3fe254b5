"""Tables whose cells hold texts of strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from shared.process.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.style import StyleType


class PlainTable(Table):
    """A table that shows every text as it is, in one line: no markup, nothing that steers."""

    def add_row(
        self,
        *cells: RenderableType | None,
        style: StyleType | None = None,
        end_section: bool = False,
    ) -> None:
        """Add a row; see Table."""
        shown = [
            Text(plain(cell).replace("\n", " ")) if isinstance(cell, str) else cell
            for cell in cells
        ]
        super().add_row(*shown, style=style, end_section=end_section)
