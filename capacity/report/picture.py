"""Drawing courses into one SVG file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from capacity.choice.summary import Summary

COLOURS: Final = ("#b3541e", "#2a6f97", "#3a7d44", "#6d3a8c")
LEAST_SECONDS: Final = 0.2


def draw(path: Path, title: str, summaries: Mapping[str, Summary]) -> None:
    """Write a picture: visitors, waits, converters and lost voices over the time.

    Args:
        path: the SVG file.
        title: what was simulated.
        summaries: by the deployment's name; the visitors are the same in all of them.
    """
    # The same figures make the same file, whoever draws them whenever.
    with mpl.rc_context({"svg.hashsalt": "capacity", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 10), layout="constrained")
        figure.suptitle(title)
        visitors, waits, converters, lost = figure.subplots(4, 1, sharex=True)
        first = next(iter(summaries.values()))
        _course(visitors, first, first.curves.arrivals, "#444444", None)
        visitors.set_ylabel("visitors a second")
        visitors.set_yscale("symlog", linthresh=1.0)
        for colour, (name, summary) in zip(COLOURS, summaries.items(), strict=False):
            _course(waits, summary, np.minimum(summary.curves.p95, 1e3), colour, name)
            _course(converters, summary, summary.curves.instances, colour, name)
            _course(lost, summary, summary.curves.lost, colour, name)
        waits.set_ylabel("wait p95, s")
        waits.set_yscale("log")
        waits.set_ylim(bottom=LEAST_SECONDS)
        waits.legend(loc="upper left", frameon=False)
        converters.set_ylabel("converters")
        converters.set_yscale("symlog", linthresh=1.0)
        lost.set_ylabel("voices lost a second")
        lost.set_xlabel("hour of the day")
        for axes in (visitors, converters, lost):
            axes.set_ylim(bottom=0)
        for axes in (visitors, waits, converters, lost):
            axes.grid(visible=True, alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def _course(axes: Any, summary: Summary, values: Any, colour: str, name: str | None) -> None:
    curves = summary.curves
    hours = (curves.begin + curves.interval * np.arange(len(values))) / 3600.0
    axes.plot(hours, values, color=colour, linewidth=1.0, label=name)
