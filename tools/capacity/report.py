"""Tables, the picture, the page's parts and Terraform's variables of a study."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
import rich.table
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tools.capacity.outcome import PERCENTILES
from tools.capacity.parameters import PlanningError
from tools.capacity.simulation import VoiceEnd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.capacity.outcome import Summary, Target
    from tools.capacity.parameters import Parameters
    from tools.capacity.search import Found

COLOURS: Final = ("#b3541e", "#2a6f97", "#3a7d44", "#6d3a8c")
LEAST_SECONDS: Final = 0.2
SECONDS_OF_A_MONTH: Final = 30 * 86_400.0
NOTICE: Final = "# Written by nox -s capacity; a later call with --write-tfvars writes it anew.\n"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        marks = ("---", *("---:" for _ in self.columns[1:]))
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, marks, *self.rows)]
        return "\n".join((f"**{self.title}**", "", *lines))

    def rich(self) -> rich.table.Table:
        """Return the table for the terminal."""
        table = rich.table.Table(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left", no_wrap=not index)
        for row in self.rows:
            table.add_row(*(re.sub(r"^\*\*(.*)\*\*$", r"[bold]\1[/bold]", cell) for cell in row))
        return table


def study_tables(summaries: Mapping[str, Summary], found: Found | None) -> list[Table]:
    """Return the comparison of deployments, and the quotas that bound."""
    named = dict(summaries)
    if found is not None:
        name = "cheapest that keeps the target" if found.holds else "best that was found"
        named[name] = found.summary
    rows = tuple(
        (
            name,
            *(seconds(each.waits[which]) for which in PERCENTILES),
            f"{each.most_instances.convert:,}",
            f"{each.late:,}",
            f"{each.in_line:,}",
            f"{each.counts[VoiceEnd.REFUSED]:,}",
            f"{each.lost - each.counts[VoiceEnd.REFUSED]:,}",
            f"{each.dollars:,.2f}",
        )
        for name, each in named.items()
    )
    waits = tuple(f"wait p{which}, s" for which in PERCENTILES)
    columns = ("deployment", *waits, "converters, most", "late", "in line", "refused", "given up")
    tables = [Table("The same visitors, one deployment a row", (*columns, "US$"), rows)]
    met = tuple(
        (
            f"{quota}, {name}",
            f"{use.most_in_second:,.0f}",
            f"{use.delayed:,}",
            f"{use.refused:,}",
            _moment((use.first_met or 0.0) + each.curves.begin),
        )
        for name, each in summaries.items()
        for quota, use in each.quotas.items()
    )
    columns = ("quota", "most in a second", "delayed", "refused", "first met at")
    return [*tables, Table("Quotas that were met", columns, met)] if met else tables


def costs(summary: Summary) -> Table:
    """Return the table of costs."""
    named = {**summary.bill, "**together**": summary.dollars}
    rows = tuple((name, f"{dollars:,.2f}") for name, dollars in named.items())
    return Table("What it costs, US$", ("for", "US$"), rows)


def advice(summaries: Mapping[str, Summary], found: Found, target: Target) -> str:
    """Describe the result of a search."""
    lines = []
    summary = found.summary
    if summary.settings.signing not in {each.settings.signing for each in summaries.values()}:
        lines.append(
            "The quota of signBlob calls is in the way. These settings sign with an HMAC key "
            "instead, which needs no such calls."
        )
    if found.in_the_way:
        named = " and ".join(str(quota) for quota in found.in_the_way)
        lines.append(f"No settings keep {target} within these quotas: {named}. Raise them first.")
    if found.holds:
        lines.append(f"The cheapest settings found that keep {target}, as Terraform variables:")
    else:
        reached = seconds(summary.waits[target.percentile])
        lines.append(
            f"No settings that were tried keep {target}; the best have "
            f"p{target.percentile} = {reached} s:"
        )
    return "\n\n".join(lines)


def seconds(number: float) -> str:
    """Return a wait as text."""
    if math.isinf(number):
        return "never"
    return "-" if math.isnan(number) else f"{number:.2f}"


def _moment(second: float) -> str:
    whole = int(second)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def with_part(text: str, name: str, part: str) -> str:
    """Return the text of a page with the part between its marks replaced."""
    begin, end = f"<!-- planned {name}: begin -->", f"<!-- planned {name}: end -->"
    marked = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(marked.findall(text)) != 1:
        raise PlanningError(f"The page needs the lines {begin!r} and {end!r} once, in this order.")
    return marked.sub(lambda _: f"{begin}\n\n{part}\n\n{end}", text)


def draw(path: Path, title: str, summaries: Mapping[str, Summary]) -> None:
    """Write an SVG file with visitors, waits, converters and lost voices over the time."""
    # The salt makes the same figures the same file.
    with mpl.rc_context({"svg.hashsalt": "capacity", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 10), layout="constrained")
        figure.suptitle(title)
        visitors, waits, converters, lost = figure.subplots(4, 1, sharex=True)
        first = next(iter(summaries.values()))
        _plot(visitors, first, first.curves.arrivals, "#444444", None)
        for colour, (name, summary) in zip(COLOURS, summaries.items(), strict=False):
            _plot(waits, summary, np.minimum(summary.curves.p95, 1e3), colour, name)
            _plot(converters, summary, summary.curves.instances, colour, name)
            _plot(lost, summary, summary.curves.lost, colour, name)
        for axes, label in (
            (visitors, "visitors a second"),
            (waits, "wait p95, s"),
            (converters, "converters"),
            (lost, "voices lost a second"),
        ):
            axes.set_ylabel(label)
            axes.grid(visible=True, alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_ylim(bottom=0)
        for axes in (visitors, converters):
            axes.set_yscale("symlog", linthresh=1.0)
        waits.set_yscale("log")
        waits.set_ylim(bottom=LEAST_SECONDS)
        waits.legend(loc="upper left", frameon=False)
        lost.set_xlabel("hour of the day")
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def _plot(axes: Any, summary: Summary, values: Any, colour: str, name: str | None) -> None:
    curves = summary.curves
    hours = (curves.begin + curves.interval * np.arange(len(values))) / 3600.0
    axes.plot(hours, values, color=colour, linewidth=1.0, label=name)


def check_variables_file(path: Path) -> None:
    """Raise PlanningError if Terraform would not read a file, or it has others' variables."""
    if path.suffix != ".tfvars":
        raise PlanningError(
            f"{path} does not end with .tfvars, so Terraform would not read it; "
            "name it capacity.auto.tfvars."
        )
    if not path.parent.is_dir():
        raise PlanningError(f"{path.parent} is not a folder; make it, or name another one.")
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(NOTICE):
        raise PlanningError(
            f"{path} has variables that the planner did not write, and they would be lost; "
            "name another file beside it, such as capacity.auto.tfvars."
        )


def write_variables(path: Path, title: str, found: Found) -> str:
    """Write the settings that were found; return how Terraform reads them."""
    summary = found.summary
    if not found.holds:
        return f"{path} is not written: no settings that were tried keep the target."
    lifted = "".join(f"# Needs a higher quota: {quota}.\n" for quota in found.in_the_way)
    settings = summary.settings.terraform(summary.most_instances)
    path.write_text(f"{NOTICE}# {title}.\n{lifted}\n{settings}\n", encoding="utf-8")
    if path.name.endswith(".auto.tfvars"):
        return f"{path}: Terraform reads it after terraform.tfvars, so its values hold."
    if path.name == "terraform.tfvars":
        return f"{path}: Terraform reads it by itself."
    return f'{path}: Terraform reads it with -var-file="{path.name}".'


def size_tables(parameters: Parameters, found: Mapping[int, Summary]) -> list[Table]:
    """Return the tables of instances, calls and quotas by voices a second."""
    limits = _limits(parameters, found[100])
    rows = []
    for rate, each in found.items():
        most = each.most_instances
        month = each.dollars * SECONDS_OF_A_MONTH / each.seconds
        met = next((f"{name} ({at:,.0f})" for name, at, _ in limits if at <= rate), "none")
        instances = f"{most.api:,} / {most.on_upload:,} / {most.convert:,}"
        cpus = f"{2 * most.convert + most.api + most.on_upload:,}"
        waits = seconds(each.waits[50]), seconds(each.waits[95])
        rows.append((f"{rate:,}", instances, cpus, *waits, f"{month:,.0f}", met))
    columns = (
        *("voices a second", "instances of api / on_upload / convert", "vCPU", "wait p50, s"),
        *("wait p95, s", "US$ a month at this rate"),
        "default quota that is met first (at voices a second)",
    )
    calls = {
        "Cloud Run requests (api, warm-up at most, on_upload, convert)": 4.0,
        "Firestore documents written": parameters["voice.documents_written"],
        "Firestore documents read by the services": parameters["voice.documents_read"],
        "Firestore documents sent to listeners": parameters["voice.documents_listened"],
        "signBlob": 2.0,
        "Cloud Storage writes, two buckets together": 3.0,
        "Cloud Storage reads, two buckets together": 2.0,
        "Pub/Sub messages": parameters["voice.messages"],
    }
    a_second = tuple(
        (name, *(f"{count * rate:,.0f}" for rate in found)) for name, count in calls.items()
    )
    rates = ("calls a second at", *(f"{rate:,} voices/s" for rate in found))
    bounds = tuple((name, f"{at:,.0f}", remedy) for name, at, remedy in limits)
    return [
        Table("Sizes, no quota binding", columns, tuple(rows)),
        Table("Calls a second", rates, a_second),
        Table(
            "Quotas in the order in which they are met",
            ("quota, by default", "met at voices a second", "can it be raised"),
            bounds,
        ),
    ]


def _limits(parameters: Parameters, at_100: Summary) -> Sequence[tuple[str, float, str]]:
    """Return name, voices a second and remedy of the quotas, the first one met first."""
    written, most = parameters["voice.documents_written"], at_100.most_instances
    cpus = (2 * most.convert + most.api + most.on_upload) / 100
    index = parameters["quota.firestore_index"] * parameters["deployed.index_parts"]
    ramp = parameters["quota.firestore_ramp"] * parameters["deployed.collections"]
    limits = (
        (
            "vCPU of a new project in a region",
            parameters["cloud_run.new_project_cpus"] / cpus,
            "yes: `quota`",
        ),
        ("Firestore writes under the sweep's index", index / written, "no: `SHARDS`, up to 30"),
        (
            "Firestore's ramp from a cold start",
            ramp / written,
            "passes: half as much again every five minutes",
        ),
        (
            "signBlob calls, two a voice",
            parameters["quota.sign_blob"] / 60.0 / 2.0,
            'yes; none at all with `signing = "hmac"`',
        ),
        (
            "writes to the bucket uploads from a cold start, two a voice",
            parameters["quota.storage_writes"] / 2.0,
            "`upload_shards`, by so many times; and passes: twice as much every twenty minutes",
        ),
        (
            "reads of one bucket from a cold start",
            parameters["quota.storage_reads"],
            "`upload_shards`; and passes: twice as much every twenty minutes",
        ),
    )
    return sorted(limits, key=lambda limit: limit[1])
