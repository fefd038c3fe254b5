"""Change the core in small ways and see whether a test notices: `nox -s mutants`.

It fails if less than `LEAST_SHARE` of the mutants are killed, and if one survives for which
tests/mutants.md gives no reason, or gives a reason although no such mutant survives.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.benchmarks.report import Report, Table, with_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = Path(__file__).with_suffix(".md")

LEAST_SHARE: Final = 0.95

KILLED: Final = frozenset({"killed", "timeout"})
"""A mutant that ends at the time limit, alone on the machine, was noticed as well."""

# `shared.conversion.leases.xǁLeaseǁ_renew__mutmut_12`: module, class, function, number.
_NAME: Final = re.compile(r"(?P<module>.+)\.x(?:ǁ(?P<owner>.+)ǁ|_)(?P<function>.+)__mutmut_\d+")


@dataclass(frozen=True, order=True)
class Change:
    """What a mutant is, however the mutants are numbered.

    Attributes:
        place: the function, as `leases.Lease.finish`.
    """

    place: str
    line: str


@dataclass(frozen=True)
class Outcome:
    states: Mapping[str, str]
    changes: Mapping[str, Change]
    reasons: frozenset[Change]

    @property
    def share(self) -> float:
        """How many of the mutants were killed, from 0 to 1."""
        return sum(state in KILLED for state in self.states.values()) / len(self.states)

    def complaints(self) -> list[str]:
        found = [
            f"{name} is {self.states[name]}, and tests/mutants.md does not say why: {change.line}"
            for name, change in self.changes.items()
            if self.states[name] != "survived" or change not in self.reasons
        ]
        found += [
            f"tests/mutants.md explains a mutant of {change.place} that does not survive: "
            f"{change.line}"
            for change in sorted(self.reasons - set(self.changes.values()))
        ]
        if self.share < LEAST_SHARE:
            found.append(f"only {self.share:.1%} of the mutants are killed")
        return found

    def report(self) -> Report:
        modules = sorted({_module_of(name) for name in self.states})
        rows = [self._row(module, module) for module in modules]
        columns = ("module", "mutants", "killed", "ended at the time limit", "survived", "% killed")
        table = Table("Mutants", columns, (*rows, self._row("all", "")))
        return Report("mutants", (table,))

    def _row(self, title: str, module: str) -> tuple[str | int, ...]:
        states = Counter(
            state for name, state in self.states.items() if module in {"", _module_of(name)}
        )
        killed = sum(states[state] for state in KILLED)
        total = states.total()
        share = f"{killed / total:.1%}".removesuffix("%")
        return (title, total, states["killed"], states["timeout"], total - killed, share)


def reasons_of(text: str) -> frozenset[Change]:
    """Return the changes that the rows of a page's table of survivors name."""
    found = set()
    for row in text.partition("| function |")[2].splitlines()[2:]:
        if not row.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", row)[1:-1]
        place, *lines = re.findall(r"`([^`]+)`", "".join(cells[:2]))
        if not lines:
            raise ValueError(f"no line of a mutant in {row!r}")
        found |= {Change(place, line.replace(r"\|", "|")) for line in lines}
    return frozenset(found)


def place_of(name: str) -> str:
    """Return the function of a mutant, with its class and the last part of its module."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise ValueError(f"{name!r} is no name of a mutant")
    owner = [parts["owner"]] if parts["owner"] else []
    return ".".join([_module_of(name).rpartition(".")[2], *owner, parts["function"]])


def line_of(difference: str) -> str:
    """Return the lines that a mutant has in place of the original ones, joined by a space.

    If it has none, the lines that it leaves out, after `without`.
    """
    return _lines(difference, "+") or f"without {_lines(difference, '-')}"


def _lines(difference: str, sign: str) -> str:
    lines = difference.splitlines()
    changed = [line[1:].strip() for line in lines if line[:1] == sign and line[:3] != 3 * sign]
    return " ".join(filter(None, changed))


def _module_of(name: str) -> str:
    return name.rpartition(".x")[0]


def _states(wanted: Sequence[str]) -> dict[str, str]:
    """Return the state of each mutant whose name fits one of the patterns, if there are any."""
    lines = _mutmut("results", "--all", "True").splitlines()
    states = dict(line.strip().split(": ") for line in lines if "__mutmut_" in line)
    if not wanted:
        return states
    return {k: v for k, v in states.items() if any(fnmatch(k, pattern) for pattern in wanted)}


def _mutmut(*arguments: str) -> str:
    command = (sys.executable, "-m", "mutmut", *arguments)
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _try_out(names: Sequence[str]) -> None:
    command = (sys.executable, "-m", "mutmut", "run", "--max-children", "1", *names)
    subprocess.run(command, cwd=ROOT, check=True)


def _outcome(wanted: Sequence[str]) -> Outcome:
    states = _states(wanted)
    alive = [name for name, state in states.items() if state not in KILLED]
    changes = {name: Change(place_of(name), line_of(_mutmut("show", name))) for name in alive}
    reasons = reasons_of(PAGE.read_text())
    if wanted:
        places = {place_of(name) for name in states}
        reasons = frozenset(change for change in reasons if change.place in places)
    return Outcome(states, changes, reasons)


def main(arguments: Sequence[str]) -> int:
    wish = _parse(arguments)
    try:
        _try_out(wish.mutants)
        if late := [name for name, state in _states(wish.mutants).items() if state == "timeout"]:
            # The machine may have been busy with something else.
            _try_out(late)
    except subprocess.CalledProcessError as error:
        # mutmut has said why.
        return error.returncode
    outcome = _outcome(wish.mutants)
    report = outcome.report()
    report.show()
    complaints = outcome.complaints()
    for complaint in complaints:
        print(complaint, file=sys.stderr)  # noqa: T201 - a command speaks to its user
    if wish.write and not wish.mutants and not complaints:
        PAGE.write_text(with_figures(PAGE.read_text(), report))
    return 1 if complaints else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    text = "look at these alone, and again; a pattern, as 'shared.voices.voice*'"
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help=text)
    text = "bring the figures into tests/mutants.md, if nothing is wrong"
    parser.add_argument("--write", action="store_true", help=text)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
