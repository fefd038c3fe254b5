"""The command: `nox -s capacity -- --per-day 1000000 --flash 100x --target "p95 <= 1.0 s"`."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

from tools.capacity import report
from tools.capacity.arrivals import DAY, CrowdForecast, read_arrivals
from tools.capacity.outcome import Target
from tools.capacity.parameters import (
    Duration,
    Parameters,
    PlanningError,
    check_range,
    read_parameters,
)
from tools.capacity.search import Study, search
from tools.capacity.settings import GIB_OF_CPUS, MOST, Quota, Settings, Signing
from tools.capacity.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.capacity.arrivals import Arrivals

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "scale.md"
PAGE_PICTURE: Final = ROOT / "docs" / "images" / "scale.svg"
PICTURE: Final = ROOT / ".local" / "capacity.svg"
MINUTES: Final = {1: 60.0, 10: 30.0, 100: 5.0, 1_000: 5.0, 10_000: 5.0}
"""Simulated minutes for each rate in voices a second of `--sizes`."""

BURSTS: Final = (30.0, 90.0, 150.0, 210.0, 270.0)
"""Seconds at which the client of `--sizes` uploads as many recordings as it may."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise PlanningError(f"{message[:1].upper()}{message[1:]}; --help shows what can be said.")


def main(arguments: Sequence[str] | None = None) -> int:
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
    parser = Parser(prog="nox -s capacity --", description="Plan for a crowd.")
    crowd = parser.add_argument_group("who comes")
    add, number = crowd.add_argument, number_from
    add("--per-day", type=number, metavar="N", help="visitors of a day")
    add("--peak", type=number, metavar="R", help="visitors a second at the busiest")
    add("--flash", type=number, metavar="100x", help="a crowd within a minute")
    text = "CSV with the column seconds (since midnight), perhaps also spoken"
    add("--arrivals", type=Path, metavar="FILE", help=text)
    add("--minutes", type=number, metavar="M", help="simulate only the busiest minutes")
    add("--texts", type=number, default=0.0, metavar="SHARE", help="of them type")
    add("--live", type=number, default=0.0, metavar="SHARE", help="of them use a WebSocket")
    text = "characters of their own voice that visitors make meanwhile"
    add("--own-characters", type=number, default=0.0, metavar="N", help=text)
    deployed = parser.add_argument_group("what is deployed (defaults of the Terraform module)")
    for name, value in asdict(Settings()).items():
        if name not in {"delivery_attempts", "lifted", "warm_up"}:
            known: Any = {"convert_cpu": GIB_OF_CPUS, "signing": Signing}.get(name)
            option, shown = f"--{name.replace('_', '-')}", None if known else "N"
            kind = type(value or 0)
            deployed.add_argument(option, type=kind, default=value, choices=known, metavar=shown)
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
        return float(text.replace(",", "").rstrip("x "))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


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
    cold = replace(settings, min_instances=0)
    deployments = {
        "without warm-up": replace(cold, warm_up=False),
        "with warm-up": cold,
        "with minimum instances": settings,
    }
    console.print("simulating three deployments ...")
    summaries = {name: study.simulate(each) for name, each in deployments.items()}
    found = None
    if target is not None:
        console.print("simulating the cheapest settings ...")
        found = search(study, target, settings)
    length = "in a day" if arrivals.seconds == DAY else f"in {arrivals.seconds / 60:g} min"
    flash = f", with a crowd of {wish.flash:g} times within a minute" if wish.flash else ""
    title = f"{len(arrivals.times) * arrivals.weight:,} visitors {length}{flash}"
    picture = PAGE_PICTURE if wish.write else wish.picture
    drawn = summaries if found is None else {**summaries, "as found": found.summary}
    report.draw(picture, title, drawn)
    text = report.study(summaries, found, target)
    console.print(Markdown(f"{title}.\n\n{text}"))
    console.print(f"{picture}, after {time.perf_counter() - begin:.0f} s")
    if wish.write_tfvars is not None and found is not None:
        console.print(report.write_variables(wish.write_tfvars, title, found), soft_wrap=True)
    if wish.write:
        shown = "![Visitors, waits, converters and lost voices over the day](images/scale.svg)"
        write_parts({"day": f"{title}.\n\n{shown}\n\n{text}"})


def write_parts(parts: Mapping[str, str]) -> None:
    """Bring parts into the page, each between its marks."""
    page = PAGE.read_text()
    for name, part in parts.items():
        page = report.with_part(page, name, part)
    PAGE.write_text(page)


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
    parts = {"sizes": report.sizes(found), "client": report.greedy(compared)}
    parts |= {"calls": report.calls(parameters, MINUTES), "quotas": report.quotas(parameters)}
    console.print(Markdown("\n\n".join(parts.values())))
    write_parts(parts)


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
    check_range("texts", wish.texts, 0, 0.999 - wish.live)
    check_range("live", wish.live, 0, 0.999)
    check_range("own_characters", wish.own_characters, 0, 1e6)
    shares = {name: getattr(wish, name) for name in ("texts", "live", "own_characters")}
    return read_parameters().replaced(
        {f"visitor.{name}": Duration(share) for name, share in shares.items()}
    )


def settings_from(wish: argparse.Namespace) -> Settings:
    names = {each.name for each in fields(Settings)}
    given = {name: value for name, value in vars(wish).items() if name in names}
    return Settings(**given)


def arrivals_from(wish: argparse.Namespace, parameters: Parameters) -> Arrivals:
    chance = np.random.default_rng(wish.seed)
    if wish.arrivals is None:
        crowd = CrowdForecast(wish.per_day, wish.peak, wish.flash, wish.minutes)
        return crowd.arrivals(parameters, chance)
    if any(each is not None for each in (wish.per_day, wish.peak, wish.flash, wish.minutes)):
        raise PlanningError("--arrivals says who comes; leave --per-day, --peak and --flash out.")
    return read_arrivals(wish.arrivals, parameters, chance)


if __name__ == "__main__":
    sys.exit(main())
