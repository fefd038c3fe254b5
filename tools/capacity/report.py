"""Tables, the picture, the page's parts and Terraform's variables of a study."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tools.capacity.outcome import PERCENTILES, percentiles
from tools.capacity.parameters import PlanningError
from tools.capacity.simulation import MOST_UNFINISHED, VoiceEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tools.capacity.outcome import Summary, Target
    from tools.capacity.parameters import Parameters
    from tools.capacity.search import Found
    from tools.capacity.simulation import Simulation

COLOURS: Final = ("#b3541e", "#2a6f97", "#3a7d44", "#6d3a8c")
LEAST_SECONDS: Final = 0.2
SECONDS_OF_A_MONTH: Final = 30 * 86_400.0
NOTICE: Final = "# Written by nox -s capacity; a later call with --write-tfvars writes it anew.\n"
WAITS: Final = tuple(f"wait p{which}, s" for which in PERCENTILES)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table as Markdown; the first column is text, the others are numbers."""
    marks = ("---" + ":" * (index > 0) for index, _ in enumerate(columns))
    lines = (f"| {' | '.join(row)} |" for row in (columns, marks, *rows))
    return "\n".join((f"**{title}**", "", *lines))


def study(summaries: Mapping[str, Summary], found: Found | None, target: Target | None) -> str:
    """Return the comparison of deployments, the quotas that bound, and the settings found."""
    named = dict(summaries)
    if found is not None:
        name = "cheapest that keeps the target" if found.holds else "best that was found"
        named[name] = found.summary
    columns = ("deployment", *WAITS, "converters, most", "late", "in line", "refused", "given up")
    rows = (
        (
            name,
            *map(seconds, each.percentiles.values()),
            f"{each.most_instances['convert']:,}",
            f"{each.late:,}",
            f"{each.in_line:,}",
            f"{each.counts[VoiceEnd.REFUSED]:,}",
            f"{each.given_up:,}",
            f"{each.dollars:,.2f}",
        )
        for name, each in named.items()
    )
    parts = [table("The same visitors, one deployment a row", (*columns, "US$"), rows)]
    met = [
        (
            f"{quota}, {name}",
            f"{use.most_in_second:,}",
            f"{use.delayed:,}",
            f"{use.refused:,}",
            time.strftime("%H:%M:%S", time.gmtime((use.first_met or 0.0) + each.begin)),
        )
        for name, each in summaries.items()
        for quota, use in each.quotas.items()
    ]
    if met:
        columns = ("quota", "most in a second", "delayed", "refused", "first met at")
        parts.append(table("Quotas that were met", columns, met))
    chosen = list(named.values())[-1]
    if found is not None and target is not None:
        parts += advice(summaries, found, target)
        parts.append(f"```hcl\n{chosen.settings.terraform(chosen.most_instances)}\n```")
    bill = {**chosen.bill, "**together**": chosen.dollars}
    bill |= {f"besides, if it is used: {name}": each for name, each in chosen.options.items()}
    costs = ((name, f"{dollars:,.2f}") for name, dollars in bill.items())
    return "\n\n".join((*parts, table("What it costs, US$", ("for", "US$"), costs)))


def advice(summaries: Mapping[str, Summary], found: Found, target: Target) -> list[str]:
    """Describe the result of a search."""
    lines, summary = [], found.summary
    if summary.settings.signing not in {each.settings.signing for each in summaries.values()}:
        lines.append(
            "The quota of signBlob calls is in the way. These settings sign with an HMAC key "
            "instead, which needs no such calls."
        )
    if found.in_the_way:
        quotas = " and ".join(found.in_the_way)
        lines.append(f"No settings keep {target} within these quotas: {quotas}. Raise them first.")
    reached = f"p{target.percentile} = {seconds(summary.percentiles[target.percentile])} s"
    what = f"The cheapest settings found that keep {target}, as settings of Terraform:"
    none = f"No settings that were tried keep {target}; the best have {reached}:"
    return [*lines, what if found.holds else none]


def seconds(number: float) -> str:
    if math.isinf(number):
        return "never"
    return "-" if math.isnan(number) else f"{number:.2f}"


def with_part(text: str, name: str, part: str) -> str:
    """Return the text of a page with the part between its marks replaced."""
    begin, end = f"<!-- planned {name}: begin -->\n", f"<!-- planned {name}: end -->"
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise PlanningError(
            f"The page needs the lines {begin.strip()!r} and {end!r} in this order."
        )
    return f"{before}{begin}\n{part}\n\n{end}{after}"


def draw(path: Path, title: str, summaries: Mapping[str, Summary]) -> None:
    """Write an SVG file with visitors, waits, converters and lost voices over the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The salt makes the same figures the same file.
    with mpl.rc_context({"svg.hashsalt": "capacity", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 10), layout="constrained")
        figure.suptitle(title)
        labels = list(next(iter(summaries.values())).curves)
        plots: Any = figure.subplots(len(labels), 1, sharex=True)
        for axes, label in zip(plots, labels, strict=True):
            for colour, (name, summary) in zip(COLOURS, summaries.items(), strict=False):
                curve = np.minimum(summary.curves[label], 1e6)
                hours = (summary.begin + summary.interval * np.arange(len(curve))) / 3600.0
                axes.plot(hours, curve, color=colour, linewidth=1.0, label=name)
            axes.set_ylabel(label)
            axes.grid(visible=True, alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_ylim(bottom=0)
        visitors, waits, converters, lost = plots
        for axes in (visitors, converters):
            axes.set_yscale("symlog", linthresh=1.0)
        waits.set_yscale("log")
        waits.set_ylim(bottom=LEAST_SECONDS)
        waits.legend(loc="upper left", frameon=False)
        lost.set_xlabel("hour of the day")
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def check_variables_file(path: Path) -> None:
    """Raise PlanningError if Terraform would not read a file, or it has others' variables."""
    if not path.name.endswith(".auto.tfvars"):
        raise PlanningError(f"Terraform would not read {path}; name it capacity.auto.tfvars.")
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
    return (
        f"{path}: Terraform reads it after terraform.tfvars and replaces the groups of that "
        "file as wholes: write what else you have in them into this file, too."
    )


def sizes(found: Mapping[int, Summary]) -> str:
    """Return the table of instances, waits and costs by voices a second."""
    rows = (
        (
            f"{rate:,}",
            " / ".join(f"{most[name]:,}" for name in ("api", "on_upload", "convert")),
            f"{2 * most['convert'] + most['api'] + most['on_upload']:,}",
            seconds(each.percentiles[50]),
            seconds(each.percentiles[95]),
            f"{each.dollars * SECONDS_OF_A_MONTH / each.seconds:,.0f}",
        )
        for rate, each in found.items()
        for most in (each.most_instances,)
    )
    columns = ("voices a second", "instances of api / on_upload / convert", "vCPU", *WAITS[:2])
    return table("Sizes, no quota binding", (*columns, "US$ a month at this rate"), rows)


def calls(p: Parameters, rates: Iterable[int]) -> str:
    """Return the table of what so many voices a second ask of Google's services."""
    of_voice = {
        "Cloud Run requests (api, warm-up at most, on_upload, convert)": p["voice.requests"],
        "Firestore documents written": p["voice.documents_written"],
        "Firestore documents read by the services": p["voice.documents_read"],
        "Firestore documents sent to listeners": p["voice.documents_listened"],
        "signBlob": p["voice.signatures"],
        # Less the notifications, which only the bill counts as a write.
        "Cloud Storage writes, two buckets together": p["voice.object_writes"] - 1,
        "Cloud Storage reads, two buckets together": p["voice.object_reads"],
        "Pub/Sub messages": p["voice.messages"],
    }
    rows = ((name, *(f"{rate * n:,.0f}" for rate in rates)) for name, n in of_voice.items())
    columns = ("calls a second at", *(f"{rate:,} voices/s" for rate in rates))
    return table("Calls a second", columns, rows)


def quotas(p: Parameters) -> str:
    """Return the table of the steady voices a second at which each quota is met."""
    work = sum(p[f"processor.{name}"] for name in ("api", "on_upload", "converter"))
    cpus = p["cloud_run.new_project_cpus"] * p["cloud_run.cpu_target"]
    signed = p["quota.sign_blob"] / 60 / p["voice.signatures"]
    index, ramp = (p[f"quota.firestore_{name}"] for name in ("index", "ramp"))
    written, writes = p["voice.documents_written"], p["quota.storage_writes"]
    met = {
        "vCPU of a new project in a region, in the mean (raise `quota`)": cpus / work,
        'signBlob calls (none with `signing.method = "hmac"`)': signed,
        # Each recording is written and emptied.
        "writes to the bucket uploads (`storage.shards`, by so many times)": writes / 2,
        "writes to the bucket results (likewise)": writes,
        "reads of the bucket uploads (likewise)": p["quota.storage_reads"],
        "Firestore writes under the sweep's index (`SHARDS`, up to 30)": index
        * p["deployed.index_parts"]
        / written,
        "Firestore's ramp (passes: half as much again every five minutes)": ramp
        * p["deployed.collections"]
        / written,
    }
    rows = ((name, f"{rate:,.0f}") for name, rate in sorted(met.items(), key=lambda each: each[1]))
    columns = ("quota, by default and from a cold start", "met at voices a second")
    return table("Quotas in the order in which they are met", columns, rows)


def greedy(compared: Mapping[str, Simulation]) -> str:
    """Return the table of a crowd's waits beside one client that uploads many recordings."""

    def row(name: str, simulation: Simulation) -> tuple[str, ...]:
        others, own = (
            [
                visit.ended - visit.released if visit.outcome is VoiceEnd.DONE else math.inf
                for visit in simulation.visits
                if visit.is_greedy is is_own and visit.outcome is not VoiceEnd.LEFT
            ]
            for is_own in (False, True)
        )
        pushes = simulation.uploads, simulation.conversions
        return (
            name,
            *map(seconds, percentiles(np.array(others)).values()),
            seconds(max(own, default=math.nan)),
            f"{sum(each.pushes for each in pushes):,}",
            f"{sum(each.flow.refused for each in pushes):,}",
        )

    title = f"One client uploads {MOST_UNFINISHED} recordings at once, each minute; others' waits"
    columns = ("who comes", *WAITS, "the client's longest wait, s", "pushes", "refused")
    return table(title, columns, (row(*each) for each in compared.items()))
