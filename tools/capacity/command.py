"""The command: `nox -s capacity -- --per-day 1000000 --flash 100x --target "p95 <= 1.0 s"`."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tools.capacity import report
from tools.capacity.arrivals import CrowdForecast, read_arrivals
from tools.capacity.outcome import PERCENTILES, Summary, Target, summarise, waits_of
from tools.capacity.parameters import (
    Duration,
    Parameters,
    PlanningError,
    read_parameters,
)
from tools.capacity.search import MOST_SHARDS, Found, Runner, search
from tools.capacity.settings import BusyHours, Instances, Quota, Settings, Signing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.capacity.arrivals import Arrivals
    from tools.capacity.outcome import Numbers
    from tools.capacity.simulation import Simulation

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "scale.md"
PAGE_PICTURE: Final = ROOT / "docs" / "images" / "scale.svg"
PICTURE: Final = ROOT / ".local" / "capacity.svg"
MOST_OWN_CHARACTERS: Final = 1_000_000
MINUTES: Final = {1: 60.0, 10: 30.0, 100: 15.0, 1_000: 10.0, 10_000: 5.0}
"""Simulated minutes for each rate in voices a second of `--sizes`."""

GREEDY: Final = 30.0
"""As many voices as one client may have unfinished (Terraform's `unfinished_per_client`)."""

MOST: Final = 20_000
"""More instances than any of these rates needs."""


class _Parser(argparse.ArgumentParser):
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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = _Parser(prog="nox -s capacity --", description="Plan for a crowd.")
    crowd = parser.add_argument_group("who comes")
    crowd.add_argument("--per-day", type=_number, metavar="N", help="visitors of a day")
    crowd.add_argument("--peak", type=_number, metavar="R", help="visitors a second at the busiest")
    crowd.add_argument("--flash", type=_times, metavar="100x", help="a crowd within a minute")
    text = "CSV with the column seconds (since midnight), perhaps also spoken"
    crowd.add_argument("--arrivals", type=Path, metavar="FILE", help=text)
    text = "simulate only the busiest minutes"
    crowd.add_argument("--minutes", type=_number, metavar="M", help=text)
    crowd.add_argument("--leaving", type=_number, metavar="SHARE", help="of the visitors")
    text = "of the visitors type instead of speaking"
    crowd.add_argument("--texts", type=_number, metavar="SHARE", help=text)
    text = "of the visitors speak into a WebSocket"
    crowd.add_argument("--live", type=_number, metavar="SHARE", help=text)
    text = "characters of their own voice that visitors make meanwhile"
    crowd.add_argument("--own-characters", type=_number, default=0.0, metavar="N", help=text)
    deployed = parser.add_argument_group("what is deployed (defaults of the Terraform module)")
    deployed.add_argument("--min-instances", type=int, default=1, metavar="N")
    deployed.add_argument("--api-min-instances", type=int, default=0, metavar="N")
    deployed.add_argument("--on-upload-min-instances", type=int, default=1, metavar="N")
    text = "of each service; the planner says how many it took"
    deployed.add_argument("--max-instances", type=int, default=1000, metavar="N", help=text)
    deployed.add_argument("--busy-hours", type=_hours, metavar="FROM-TO=N")
    deployed.add_argument("--convert-cpu", type=int, default=2, choices=(1, 2, 4, 8))
    deployed.add_argument("--convert-concurrency", type=int, metavar="N")
    deployed.add_argument("--api-concurrency", type=int, default=500, metavar="N")
    deployed.add_argument("--signing", type=Signing, choices=tuple(Signing), default=Signing.IAM)
    deployed.add_argument("--upload-shards", type=int, default=1, metavar="N")
    deployed.add_argument("--warm-ups-at-once", type=int, default=80, metavar="N")
    text = "take all quotas for raised"
    deployed.add_argument("--without-quotas", action="store_true", help=text)
    wanted = parser.add_argument_group("what is wanted")
    text = 'search the cheapest settings, as in "p95 <= 1.0 s"'
    wanted.add_argument("--target", type=str, metavar="TARGET", help=text)
    wanted.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE.svg")
    text = "bring table and picture into docs/scale.md"
    wanted.add_argument("--write", action="store_true", help=text)
    text = "write the settings that --target finds where Terraform reads them"
    wanted.add_argument("--write-tfvars", type=Path, metavar="FILE", help=text)
    text = "simulate 1 to 10 000 voices a second for docs/scale.md"
    wanted.add_argument("--sizes", action="store_true", help=text)
    wanted.add_argument("--seed", type=int, default=0, help="of everything random")
    return parser


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _times(text: str) -> float:
    return _number(text.strip().removesuffix("x"))


def _hours(text: str) -> BusyHours:
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
    parameters = _parameters(wish)
    target = None if wish.target is None else Target.parse(wish.target)
    if wish.write_tfvars is not None:
        # Before the simulation, which takes a while.
        if target is None:
            raise PlanningError('--write-tfvars needs a --target, such as "p95 <= 1.0 s".')
        report.check_variables_file(wish.write_tfvars)
    settings = _settings(wish)
    arrivals = _arrivals(wish, parameters).sample()
    deployments = {
        "without warm-up": settings.without_warm_up(),
        "with warm-up": settings.with_warm_up_only(),
        "with minimum instances": settings,
    }
    found = None
    with _progress(console) as progress:
        voices = len(deployments) * len(arrivals.times)
        runner = Runner(parameters, wish.seed, _teller(progress, "three deployments", voices))
        told = runner.run(list(deployments.values()), arrivals, _summary_and_waits)
        summaries = {name: each for name, (each, _) in zip(deployments, told, strict=True)}
        if target is not None:
            runner = Runner(parameters, wish.seed, _teller(progress, "the cheapest settings"))
            found = search(runner, target, arrivals, settings, told[-1][1])
    title = _title(wish, arrivals)
    picture = PAGE_PICTURE if wish.write else wish.picture
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawn = summaries if found is None else {**summaries, "as found": found.summary}
    report.draw(picture, title, drawn)
    _show(console, title, summaries, found, target)
    console.print(f"{picture}, after {time.perf_counter() - begin:.0f} s")
    if wish.write_tfvars is not None and found is not None:
        written = report.write_variables(wish.write_tfvars, title, found)
        console.print(written, soft_wrap=True)
    if wish.write:
        part = _markdown(title, summaries, found, target)
        PAGE.write_text(report.with_part(PAGE.read_text(), "day", part))


def write_sizes(console: Console, seed: int) -> None:
    """Simulate rates of 1 to 10,000 voices a second in a steady state; write them on the page."""
    parameters = read_parameters().replaced(
        {"visitor.leaving": Duration(0.0), "cloud_run.region_cpus": Duration(math.inf)}
    )
    target = parameters["cloud_run.cpu_target"]
    found = {}
    with _progress(console) as progress:
        runner = Runner(parameters, seed, _teller(progress, "rates of voices"))
        greedy = _compare_greedy(parameters, runner)
        for rate, minutes in MINUTES.items():
            crowd = CrowdForecast(peak=float(rate), minutes=minutes)
            arrivals = crowd.arrivals(parameters, np.random.default_rng(seed)).sample()
            # The instances are there already.
            convert = round(rate * parameters["processor.converter"] / (2 * target)) + 1
            api = round(rate * parameters["processor.api"] / target) + 1
            settings = Settings(
                minimum=Instances(api, api, convert),
                maximum=Instances(MOST, MOST, MOST),
                lifted=frozenset(Quota),
            )
            (found[rate],) = runner.run([settings], arrivals, summarise)
    tables = report.size_tables(parameters, found)
    for table in (*tables, greedy):
        console.print(table.rich())
    part = "\n\n".join(table.markdown() for table in tables)
    page = report.with_part(PAGE.read_text(), "sizes", part)
    PAGE.write_text(report.with_part(page, "greedy", greedy.markdown()))


def _compare_greedy(parameters: Parameters, runner: Runner) -> report.Table:
    """Simulate crowds without and with one client that uploads thirty recordings at once."""
    rows = []
    for name, rate, live, most in (
        ("50 live and 50 uploaded voices a second", 100.0, 0.5, Instances(MOST, MOST, MOST)),
        ("2 voices a second, one converter", 2.0, 0.0, Instances(2, 2, 1)),
    ):
        crowd = CrowdForecast(peak=rate, minutes=5.0)
        arrivals = crowd.arrivals(parameters, np.random.default_rng(runner.seed))
        minimum = Instances(1, 1, min(10, most.convert))
        settings = Settings(minimum=minimum, maximum=most, lifted=frozenset(Quota))
        for burst, who in ((0.0, name), (GREEDY, "the same, and the client")):
            changes = {"visitor.live": Duration(live), "visitor.burst": Duration(burst)}
            told = replace(runner, parameters=parameters.replaced(changes))
            (figures,) = told.run([settings], arrivals, _greedy_figures)
            rows.append((who, *figures))
    columns = ("who comes", *(f"wait p{which}, s" for which in PERCENTILES))
    title = f"One client uploads {GREEDY:g} recordings at once, each minute; waits of the others"
    more = ("the client's longest wait, s", "pushes", "refused")
    return report.Table(title, (*columns, *more), tuple(rows))


def _greedy_figures(simulation: Simulation) -> tuple[str, ...]:
    subscriptions = (simulation.uploads, simulation.conversions)
    longest = max((each.ended - each.released for each in simulation.greedy), default=float("nan"))
    waits = summarise(simulation).waits
    return (
        *(report.seconds(waits[which]) for which in PERCENTILES),
        report.seconds(longest),
        f"{sum(each.delivered for each in subscriptions):,}",
        f"{sum(each.flow.refused for each in subscriptions):,}",
    )


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}: {task.completed:,.0f} voices"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def _teller(progress: Progress, what: str, total: float | None = None) -> Callable[[int], None]:
    """Begin a stage of the command; return what takes the voices that are simulated."""
    what = f"simulating {what}"
    if not progress.console.is_terminal:
        progress.console.print(f"{what} ...")
    task = progress.add_task(what, total=total)
    return lambda voices: progress.advance(task, voices)


def _summary_and_waits(simulation: Simulation) -> tuple[Summary, tuple[Numbers, Numbers]]:
    return summarise(simulation), waits_of(simulation)


def _parameters(wish: argparse.Namespace) -> Parameters:
    parameters = read_parameters()
    shares = {
        name: share
        for name in ("leaving", "texts", "live")
        if (share := getattr(wish, name)) is not None
    }
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise PlanningError(f"--{name} is {share:g}; it is a share from 0 to below 1.")
    if shares.get("texts", 0) + shares.get("live", 0) >= 1:
        raise PlanningError("--texts and --live are shares that together must be below 1.")
    if not 0 <= wish.own_characters <= MOST_OWN_CHARACTERS:
        raise PlanningError(f"--own-characters must be from 0 to {MOST_OWN_CHARACTERS:,}.")
    wanted = shares | {"own_characters": wish.own_characters}
    return parameters.replaced(
        {f"visitor.{name}": Duration(share) for name, share in wanted.items()}
    )


def _settings(wish: argparse.Namespace) -> Settings:
    if wish.convert_concurrency is not None and wish.convert_concurrency < 1:
        raise PlanningError("--convert-concurrency must be 1 or more.")
    if not 1 <= wish.api_concurrency <= 1000:  # noqa: PLR2004 - Cloud Run's bound
        raise PlanningError("--api-concurrency must be from 1 to 1000, the most of Cloud Run.")
    if not 1 <= wish.upload_shards <= MOST_SHARDS:
        raise PlanningError(f"--upload-shards must be from 1 to {MOST_SHARDS}.")
    if not 1 <= wish.warm_ups_at_once <= 1000:  # noqa: PLR2004 - as Terraform's variable
        raise PlanningError("--warm-ups-at-once must be from 1 to 1000.")
    most = wish.max_instances
    return Settings(
        minimum=Instances(wish.api_min_instances, wish.on_upload_min_instances, wish.min_instances),
        maximum=Instances(most, most, most),
        busy_hours=wish.busy_hours,
        convert_cpu=wish.convert_cpu,
        convert_concurrency=wish.convert_concurrency,
        api_concurrency=wish.api_concurrency,
        signing=wish.signing,
        upload_shards=wish.upload_shards,
        warm_ups_at_once=wish.warm_ups_at_once,
        lifted=frozenset(Quota) if wish.without_quotas else frozenset(),
    )


def _arrivals(wish: argparse.Namespace, parameters: Parameters) -> Arrivals:
    chance = np.random.default_rng(wish.seed)
    if wish.arrivals is None:
        return CrowdForecast(wish.per_day, wish.peak, wish.flash, wish.minutes).arrivals(
            parameters, chance
        )
    if any(each is not None for each in (wish.per_day, wish.peak, wish.flash, wish.minutes)):
        raise PlanningError("--arrivals says who comes; leave --per-day, --peak and --flash out.")
    return read_arrivals(wish.arrivals, parameters, chance)


def _title(wish: argparse.Namespace, arrivals: Arrivals) -> str:
    length = (
        "in a day"
        if math.isclose(arrivals.seconds, 86_400)
        else f"in {arrivals.seconds / 60:g} min"
    )
    flash = "" if wish.flash is None else f", with a crowd of {wish.flash:g} times within a minute"
    return f"{arrivals.visitors:,} visitors {length}{flash}"


def _show(
    console: Console,
    title: str,
    summaries: dict[str, Summary],
    found: Found | None,
    target: Target | None,
) -> None:
    console.print(f"[bold]{title}[/bold]")
    for table in report.study_tables(summaries, found):
        console.print(table.rich())
    chosen = list(summaries.values())[-1] if found is None else found.summary
    console.print(report.costs(chosen).rich())
    if found is not None and target is not None:
        console.print(report.advice(summaries, found, target), highlight=False)
        console.print(chosen.settings.terraform(chosen.most_instances), highlight=False)


def _markdown(
    title: str, summaries: dict[str, Summary], found: Found | None, target: Target | None
) -> str:
    parts = [
        f"{title}.",
        "![Visitors, waits, converters and lost voices over the day](images/scale.svg)",
        *(table.markdown() for table in report.study_tables(summaries, found)),
    ]
    if found is not None and target is not None:
        summary = found.summary
        parts += [
            report.advice(summaries, found, target),
            f"```hcl\n{summary.settings.terraform(summary.most_instances)}\n```",
            report.costs(summary).markdown(),
        ]
    return "\n\n".join(parts)
