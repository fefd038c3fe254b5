"""Tables of what simulations showed, as Markdown and for the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rich.table

from capacity.choice.summary import PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capacity.choice.study import Study
    from capacity.choice.summary import Summary


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts under headings; the first column is text, the others are numbers.

    Attributes:
        title: what it shows.
        columns: the headings.
        rows: as many texts each.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [_row(self.columns), _row(("---", *("---:" for _ in self.columns[1:])))]
        lines += [_row(row) for row in self.rows]
        return "\n".join((f"**{self.title}**", "", *lines))

    def rich(self) -> rich.table.Table:
        """Return it for the terminal."""
        table = rich.table.Table(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left", no_wrap=not index)
        for row in self.rows:
            table.add_row(*(_emphasised(cell) for cell in row))
        return table


def _emphasised(cell: str) -> str:
    """Return a cell in the terminal's form of emphasis instead of Markdown's."""
    plain = cell.removeprefix("**").removesuffix("**")
    return cell if plain == cell else f"[bold]{plain}[/bold]"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comparison(study: Study) -> Table:
    """Return the deployments side by side, what was found last."""
    named = dict(study.summaries)
    if study.found is not None:
        named[
            ("cheapest that keeps the target" if study.found.holds else "best that was found")
        ] = study.found.summary
    rows = [_cells(name, summary) for name, summary in named.items()]
    columns = (
        "deployment",
        *(f"wait p{which}, s" for which in PERCENTILES),
        "converters, most",
        "late",
        "in line",
        "refused",
        "given up",
        "US$",
    )
    return Table("The same visitors, one deployment a row", columns, tuple(rows))


def _cells(name: str, summary: Summary) -> tuple[str, ...]:
    return (
        name,
        *(seconds(summary.waits[which]) for which in PERCENTILES),
        f"{summary.most_instances.convert:,}",
        f"{summary.late:,}",
        f"{summary.in_line:,}",
        f"{summary.refused:,}",
        f"{summary.dead + summary.under_way:,}",
        f"{summary.bill.together:,.2f}",
    )


def quotas(summaries: Sequence[tuple[str, Summary]]) -> Table:
    """Build the table of quotas and how near they came."""
    rows = [
        (
            f"{quota}, {name}",
            f"{use.most_in_second:,.0f}",
            f"{use.delayed:,}",
            f"{use.refused:,}",
            moment(use.first_met),
        )
        for name, summary in summaries
        for quota, use in summary.quotas.items()
        if use.first_met is not None
    ]
    columns = ("quota", "most in a second", "delayed", "refused", "first met at")
    return Table("Quotas that were met", columns, tuple(rows))


def costs(summary: Summary) -> Table:
    """Build the table of costs."""
    bill = summary.bill
    made = [("characters of visitors' own voices", f"{bill.own_characters:,.2f}")]
    rows = (
        ("converters at work", f"{bill.converter:,.2f}"),
        ("idle minimum instances", f"{bill.idle:,.2f}"),
        ("functions at work", f"{bill.functions:,.2f}"),
        ("requests", f"{bill.requests:,.2f}"),
        ("Firestore", f"{bill.firestore:,.2f}"),
        ("Cloud Storage", f"{bill.storage:,.2f}"),
        ("Pub/Sub", f"{bill.messages:,.2f}"),
        ("results to the visitors", f"{bill.results:,.2f}"),
        *(made if bill.own_characters else []),
        ("**together**", f"{bill.together:,.2f}"),
    )
    return Table("What it costs, US$", ("for", "US$"), rows)


def advice(study: Study) -> str:
    """Describe the search's result in sentences."""
    found, target = study.found, study.target
    if found is None or target is None:
        return ""
    lines = []
    chosen = {summary.settings.signing for summary in study.summaries.values()}
    if found.summary.settings.signing not in chosen:
        lines.append(
            "The quota of signBlob calls is in the way. What follows signs with an HMAC key "
            "instead, which needs none of them."
        )
    if found.in_the_way:
        named = _listed([str(quota) for quota in found.in_the_way])
        lines.append(
            f"With the quotas as they are no settings keep {target}: in the way are {named}. "
            "What follows takes them for lifted."
        )
    if found.holds:
        lines.append(f"The cheapest settings found that keep {target}, as Terraform variables:")
    else:
        reached = seconds(found.summary.waits[target.percentile])
        lines.append(
            f"No settings that were tried keep {target}; the best have "
            f"p{target.percentile} = {reached} s:"
        )
    return "\n\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def seconds(number: float) -> str:
    """Return seconds as they are read; a wait without an end has a word of its own."""
    if math.isinf(number):
        return "never"
    return "-" if math.isnan(number) else f"{number:.2f}"


def moment(second: float | None) -> str:
    """Return a second of the day as a time."""
    if second is None:
        return "-"
    whole = int(second)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
