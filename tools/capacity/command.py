"""The command: `nox -s capacity -- --per-day 1000000 --flash 100x --target "p95 <= 1.0 s"`."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

from tools.capacity import report
from tools.capacity.arrivals import DAY, CrowdForecast, read_arrivals
from tools.capacity.outcome import Target
from tools.capacity.parameters import Duration, Parameters, PlanningError, read_parameters
from tools.capacity.search import Study, search
from tools.capacity.settings import BusyHours, Quota, Settings, Signing
from tools.capacity.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.capacity.arrivals import Arrivals

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "scale.md"
PAGE_PICTURE: Final = ROOT / "docs" / "images" / "scale.svg"
PICTURE: Final = ROOT / ".local" / "capacity.svg"
MOST_OWN_CHARACTERS: Final = 1_000_000
MINUTES: Final = {1: 60.0, 10: 30.0, 100: 5.0, 1_000: 5.0, 10_000: 5.0}
"""Simulated minutes for each rate in voices a second of `--sizes`."""

BURSTS: Final = (30.0, 90.0, 150.0, 210.0, 270.0)
"""Seconds at which the client of `--sizes` uploads as many recordings as it may."""

MOST: Final = 20_000
"""More instances than any of these rates needs."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise PlanningError(f"{message[:1].upper()}{message[1:]}; --help shows what can be said.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    # A pipe has no width.
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        wish = parser().parse_args(arguments)
        if wish.sizes:
            write_sizes(console, wish.seed)
        else:
            plan(wish, console)
    except PlanningError as error:
        print(error, file=sys.stderr)  # noqa: T201 - it is a command
        return 2
    return 0


def parser() -> Parser:
    """Return the parser of the arguments."""
    parser = Parser(prog="nox -s capacity --", description="Plan for a crowd.")
    crowd = parser.add_argument_group("who comes")
    add, number = crowd.add_argument, number_from
    add("--per-day", type=number, metavar="N", help="visitors of a day")
    add("--peak", type=number, metavar="R", help="visitors a second at the busiest")
    add("--flash", type=factor_from, metavar="100x", help="a crowd within a minute")
    text = "CSV with the column seconds (since midnight), perhaps also spoken"
    add("--arrivals", type=Path, metavar="FILE", help=text)
    add("--minutes", type=number, metavar="M", help="simulate only the busiest minutes")
    add("--leaving", type=number, metavar="SHARE", help="of the visitors")
    text = "of the visitors type instead of speaking"
    add("--texts", type=number, metavar="SHARE", help=text)
    add("--live", type=number, metavar="SHARE", help="of the visitors speak into a WebSocket")
    text = "characters of their own voice that visitors make meanwhile"
    add("--own-characters", type=number, default=0.0, metavar="N", help=text)
    deployed = parser.add_argument_group("what is deployed (defaults of the Terraform module)")
    add = deployed.add_argument
    add("--min-instances", type=int, default=1, metavar="N")
    add("--api-min-instances", type=int, default=0, metavar="N")
    add("--on-upload-min-instances", type=int, default=1, metavar="N")
    text = "of each service; the planner says how many it took"
    add("--max-instances", type=int, default=1000, metavar="N", help=text)
    add("--busy-hours", type=hours_from, metavar="FROM-TO=N")
    add("--convert-cpu", type=int, default=2, choices=(1, 2, 4, 8))
    add("--convert-concurrency", type=int, metavar="N")
    add("--api-concurrency", type=int, default=500, metavar="N")
    add("--signing", type=Signing, choices=tuple(Signing), default=Signing.IAM)
    add("--upload-shards", type=int, default=1, metavar="N")
    add("--warm-ups-at-once", type=int, default=80, metavar="N")
    add("--without-quotas", action="store_true", help="take all quotas for raised")
    add = parser.add_argument_group("what is wanted").add_argument
    text = 'search the cheapest settings, as in "p95 <= 1.0 s"'
    add("--target", metavar="TARGET", help=text)
    add("--picture", type=Path, default=PICTURE, metavar="FILE.svg")
    add("--write", action="store_true", help="bring table and picture into docs/scale.md")
    text = "write the settings that --target finds where Terraform reads them"
    add("--write-tfvars", type=Path, metavar="FILE", help=text)
    text = "simulate 1 to 10 000 voices a second for docs/scale.md"
    add("--sizes", action="store_true", help=text)
    add("--seed", type=int, default=0, help="of everything random")
    return parser


def number_from(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def factor_from(text: str) -> float:
    return number_from(text.strip().removesuffix("x"))


def hours_from(text: str) -> BusyHours:
    try:
        hours, _, count = text.partition("=")
        begin, _, end = hours.partition("-")
        busy = BusyHours(int(begin), int(end), int(count))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not written like 20-22=50") from None
    if not 0 <= busy.begin < busy.end <= 24 or busy.min_instances < 0:  # noqa: PLR2004 - hours
        raise argparse.ArgumentTypeError(f"{text!r} needs 0 <= FROM < TO <= 24 and N >= 0")
    return busy


def plan(wish: argparse.Namespace, console: Console) -> None:
    """Simulate three deployments, search if there is a target, print and draw the result."""
    begin = time.perf_counter()
    parameters = parameters_from(wish)
    target = None if wish.target is None else Target.parse(wish.target)
    if wish.write_tfvars is not None:
        # Before the simulation, which takes a while.
        if target is None:
            raise PlanningError('--write-tfvars needs a --target, such as "p95 <= 1.0 s".')
        report.check_variables_file(wish.write_tfvars)
    settings = settings_from(wish)
    arrivals = arrivals_from(wish, parameters).sample()
    study = Study(parameters, arrivals, wish.seed)
    cold = replace(settings, min_instances=0, busy_hours=None)
    deployments = {
        "without warm-up": replace(cold, warm_up=False),
        "with warm-up": cold,
        "with minimum instances": settings,
    }
    console.print("simulating three deployments ...")
    done = study.simulate_all(study.simulate, deployments.values())
    summaries = dict(zip(deployments, done, strict=True))
    found = None
    if target is not None:
        console.print("simulating the cheapest settings ...")
        found = search(study, target, settings)
    length = "in a day" if arrivals.seconds == DAY else f"in {arrivals.seconds / 60:g} min"
    flash = "" if wish.flash is None else f", with a crowd of {wish.flash:g} times within a minute"
    title = f"{done[0].visitors:,} visitors {length}{flash}"
    picture = PAGE_PICTURE if wish.write else wish.picture
    drawn = summaries if found is None else {**summaries, "as found": found.summary}
    report.draw(picture, title, drawn)
    text = report.study(summaries, found, target)
    console.print(Markdown(f"{title}.\n\n{text}"))
    console.print(f"{picture}, after {time.perf_counter() - begin:.0f} s")
    if wish.write_tfvars is not None and found is not None:
        written = report.write_variables(wish.write_tfvars, title, found)
        console.print(written, soft_wrap=True)
    if wish.write:
        shown = "![Visitors, waits, converters and lost voices over the day](images/scale.svg)"
        part = f"{title}.\n\n{shown}\n\n{text}"
        PAGE.write_text(report.with_part(PAGE.read_text(), "day", part))


def write_sizes(console: Console, seed: int) -> None:
    """Write rates of 1 to 10,000 voices a second and one greedy client on the page."""
    parameters = read_parameters().replaced(
        {"visitor.leaving": Duration(0.0), "cloud_run.region_cpus": Duration(math.inf)}
    )
    found = {}
    for rate, minutes in MINUTES.items():
        console.print(f"simulating {rate:,} voices a second ...")
        crowd = CrowdForecast(peak=float(rate), minutes=minutes)
        arrivals = crowd.arrivals(parameters, np.random.default_rng(seed)).sample()
        settings = replace(warm_settings(parameters, rate), lifted=frozenset(Quota))
        found[rate] = Study(parameters, arrivals, seed).simulate(settings)
    half = parameters.replaced({"visitor.live": Duration(0.5)})
    compared = {}
    for name, visitors, rate, settings in (
        ("50 live and 50 uploaded voices a second", half, 100, warm_settings(half, 100)),
        ("2 voices a second, one converter", parameters, 2, Settings(max_instances=1)),
    ):
        console.print(f"simulating {name} ...")
        arrivals = CrowdForecast(peak=float(rate), minutes=5.0).arrivals(
            visitors, np.random.default_rng(seed)
        )
        for row, bursts in ((name, ()), (f"{name}, and the client", BURSTS)):
            beside = replace(arrivals, bursts=bursts)
            compared[row] = Simulation(visitors, settings, beside, seed=seed).run()
    page = PAGE.read_text()
    for name, part in (("sizes", report.sizes(found)), ("client", report.greedy(compared))):
        console.print(Markdown(part))
        page = report.with_part(page, name, part)
    PAGE.write_text(page)


def warm_settings(parameters: Parameters, rate: float) -> Settings:
    """Return settings whose instances are there already."""
    target = parameters["cloud_run.cpu_target"]
    api = round(rate * parameters["processor.api"] / target) + 1
    return Settings(
        min_instances=round(rate * parameters["processor.converter"] / (2 * target)) + 1,
        api_min_instances=api,
        on_upload_min_instances=api,
        max_instances=MOST,
    )


def parameters_from(wish: argparse.Namespace) -> Parameters:
    given = {name: getattr(wish, name) for name in ("leaving", "texts", "live")}
    shares = {name: share for name, share in given.items() if share is not None}
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise PlanningError(f"--{name} is {share:g}; it is a share from 0 to below 1.")
    if shares.get("texts", 0) + shares.get("live", 0) >= 1:
        raise PlanningError("--texts and --live are shares that together must be below 1.")
    if not 0 <= wish.own_characters <= MOST_OWN_CHARACTERS:
        raise PlanningError(f"--own-characters must be from 0 to {MOST_OWN_CHARACTERS:,}.")
    wanted = shares | {"own_characters": wish.own_characters}
    changes = {f"visitor.{name}": Duration(share) for name, share in wanted.items()}
    return read_parameters().replaced(changes)


def settings_from(wish: argparse.Namespace) -> Settings:
    given = {each.name: getattr(wish, each.name, None) for each in fields(Settings)}
    lifted = frozenset(Quota) if wish.without_quotas else frozenset()
    chosen = {name: value for name, value in given.items() if value is not None}
    return Settings(**chosen, lifted=lifted)


def arrivals_from(wish: argparse.Namespace, parameters: Parameters) -> Arrivals:
    chance = np.random.default_rng(wish.seed)
    if wish.arrivals is None:
        crowd = CrowdForecast(wish.per_day, wish.peak, wish.flash, wish.minutes)
        return crowd.arrivals(parameters, chance)
    if any(each is not None for each in (wish.per_day, wish.peak, wish.flash, wish.minutes)):
        raise PlanningError("--arrivals says who comes; leave --per-day, --peak and --flash out.")
    return read_arrivals(wish.arrivals, parameters, chance)
