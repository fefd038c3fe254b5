"""Fuzzes what strangers' bytes reach, each target in a process of its own.

    python -m tests.robustness.fuzz --minutes 10 [--target NAME] [--seed N]
    python -m tests.robustness.fuzz --replay .fuzz/NAME/INPUT

The last target, `properties`, are the tests that draw inputs: here they draw others than in
`nox -s tests`. It ends with a table, and with exit code 1 if an input crashed its target, was not
answered cleanly or went over a limit, or a test failed. Such an input is kept in `.fuzz`, with what
replays it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from tests.robustness.fuzz.current import noted, read_current
from tests.robustness.fuzz.harness import fuzz, try_one
from tests.robustness.fuzz.targets import targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.robustness.fuzz.harness import Tally

KEPT = Path(".fuzz")
# Beyond its time a process may finish a batch, and make a failing input small.
GRACE_SECONDS = 600.0
SHOWN_KINDS = 6
PROPERTIES = "properties"


def main(arguments: Sequence[str]) -> int:
    """Fuzz or replay, as the arguments say."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="altogether (default: 1)")
    choices = [*sorted(targets()), PROPERTIES]
    parser.add_argument("--target", choices=choices, action="append")
    parser.add_argument("--seed", type=int, help="to begin with (default: the time)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try one kept input")
    parser.add_argument("--process", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    wanted = options.target or [*targets(), PROPERTIES]
    names = [name for name in wanted if name != PROPERTIES]
    seed = int(time.time()) if options.seed is None else options.seed
    seconds = 60 * options.minutes / len(wanted)
    if options.process is not None:
        return _fuzz_here(names[0], seconds, seed, options.process)
    reports = [_in_process(name, seconds, seed) for name in names]
    Console().print(table(reports, seed))
    for report in reports:
        for failure, replay in report["kept"].items():
            sys.stdout.write(f"{report['target']}: {failure}\n  replay it: {replay}\n")
    is_well = not any(report["failures"] for report in reports)
    if PROPERTIES in wanted:
        is_well &= search_properties(seed)
    return 0 if is_well else 1


def search_properties(
    seed: int, tests: Sequence[str] = ("tests/unit", "tests/integration")
) -> bool:
    """Run the tests that draw inputs with others than usual; return whether all have passed."""
    drawn = ("-m", "hypothesis", "--hypothesis-profile=default", f"--hypothesis-seed={seed}")
    command = (sys.executable, "-m", "pytest", "-q", *drawn, *tests)
    return subprocess.run(command, check=False).returncode == 0


def table(reports: Sequence[dict[str, Any]], seed: int) -> Table:
    """Return the tally of every target."""
    shown = Table(title=f"fuzz, seed {seed}", caption="memory of the largest process")
    for heading in ("target", "inputs", "answers", "failures", "slowest", "memory"):
        shown.add_column(heading)
    for report in reports:
        kinds = sorted(report["kinds"].items(), key=lambda item: -item[1])
        answers = [f"{kind} {count}" for kind, count in kinds[:SHOWN_KINDS]]
        if kinds[SHOWN_KINDS:]:
            answers.append(f"and {len(kinds) - SHOWN_KINDS} more")
        shown.add_row(
            report["target"],
            f"{report['tried']}",
            "; ".join(answers),
            f"{len(report['failures'])}",
            f"{report['slowest']:.2f} s",
            f"{report['memory_bytes'] >> 20} MiB",
        )
    return shown


def _in_process(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Fuzz a target in a process that may crash or hang, and return its tally."""
    KEPT.joinpath(name).mkdir(parents=True, exist_ok=True)
    current = KEPT / name / "current"
    current.unlink(missing_ok=True)
    minutes = str(seconds / 60)
    command = (
        "-m",
        "tests.robustness.fuzz",
        "--target",
        name,
        "--seed",
        str(seed),
        "--minutes",
        minutes,
    )
    try:
        ended = subprocess.run(
            [sys.executable, *command, "--process", str(current)],
            stdout=subprocess.PIPE,
            check=False,
            timeout=seconds + GRACE_SECONDS,
        )
        output, ending = ended.stdout, f"ended with {ended.returncode}"
    except subprocess.TimeoutExpired:
        output, ending = b"", "did not end"
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        report = _report_of_crash(name, f"the process {ending}", current)
    current.unlink(missing_ok=True)
    return report


def _report_of_crash(name: str, failure: str, current: Path) -> dict[str, Any]:
    data = read_current(current)
    return {
        "target": name,
        "tried": 0,
        "kinds": {},
        "slowest": 0.0,
        "memory_bytes": 0,
        "failures": [failure],
        "kept": {failure: _keep(name, data)} if data is not None else {},
    }


def _fuzz_here(name: str, seconds: float, seed: int, current: Path) -> int:
    """Fuzz in this process, and write the tally to standard output."""
    with noted(current) as note, _printing_to_errors():
        tally = fuzz(targets()[name], seconds=seconds, first_seed=seed, before=note)
    json.dump(tally.as_json() | {"kept": _keep_all(tally)}, sys.stdout)
    return 0


@contextmanager
def _printing_to_errors() -> Iterator[None]:
    """Keep what libraries of C print away from the tally."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)


def _keep_all(tally: Tally) -> dict[str, str]:
    return {
        f"{kind}: {tally.complaints[kind]}": _keep(tally.target, data)
        for kind, data in tally.failures.items()
    }


def _keep(name: str, data: bytes) -> str:
    """Keep an input and return the command that replays it."""
    path = KEPT / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return f"python -m tests.robustness.fuzz --replay {path}"


def _replay(path: Path) -> int:
    kind = try_one(targets()[path.parent.name], path.read_bytes())
    sys.stdout.write(f"answered: {kind}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
