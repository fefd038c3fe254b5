"""Looks for known vulnerabilities in the locked dependencies of everything that is deployed.

pip-audit checks the deployables' requirements, npm those of the page. Packages that cannot be
checked do not count as safe: they are named, and the run fails if AUDIT_REQUIRED is set, as in a CI
that can reach the advisories.

    python -m requirements.audit

Exit code: 0 nothing found, 1 something found, 2 some of it could not be checked.
"""
# ruff: noqa: S603 - a command that runs other programs

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
WEB: Final = ROOT / "web"
REQUIRED: Final = "AUDIT_REQUIRED"
SECONDS: Final = 300.0

PASSED, FOUND, NOT_CHECKED = 0, 1, 2

_PIP_AUDIT: Final = (
    *(sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"),
    # The files are complete, so that nothing has to be resolved or downloaded.
    *("--no-deps", "--disable-pip"),
)
_MANY: Final = 5


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    output: str
    errors: str


RunProgram = Callable[[Sequence[str], Path], Ended]
"""Runs a program in a folder and returns how it ended."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Known vulnerabilities of some dependencies."""

    subject: str
    found: tuple[str, ...] = ()
    unchecked: str = ""  # why some of them, or all, could not be checked
    checked: int = 0


def audit_python(requirements: Sequence[Path], run: RunProgram) -> AuditReport:
    """Ask for what locked requirement files name."""
    subject = "Python packages of the deployables"
    options = [part for path in requirements for part in ("--requirement", str(path))]
    answer = ask([*_PIP_AUDIT, *options], ROOT, run)
    if isinstance(answer, str):
        return AuditReport(subject, unchecked=answer)
    packages = answer.content.get("dependencies")
    if not packages:
        return AuditReport(subject, unchecked="pip-audit names no package")
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    unknown = ", ".join(skipped[:_MANY]) + (", ..." if len(skipped) > _MANY else "")
    unchecked = f"nothing is known of {len(skipped)} of {len(packages)} packages ({unknown})"
    found = vulnerabilities(packages)
    return AuditReport(
        subject,
        found=found,
        unchecked=unchecked if skipped else answer.failure_beside(found),
        checked=sum("skip_reason" not in package for package in packages),
    )


def audit_page(npm: str | None, run: RunProgram) -> AuditReport:
    """Ask for what the page's lock file names, with the tools that build it."""
    subject = "npm packages of the page"
    if npm is None:
        return AuditReport(subject, unchecked="npm was not found; install Node.js 20 or newer")
    answer = ask([npm, "audit", "--json"], WEB, run)
    if isinstance(answer, str):
        return AuditReport(subject, unchecked=answer)
    vulnerable = answer.content.get("vulnerabilities")
    if not isinstance(vulnerable, dict):
        error = answer.content.get("error")
        summary = error.get("summary") if isinstance(error, dict) else None
        why = answer.content.get("message") or summary or "npm answers without saying why"
        return AuditReport(subject, unchecked=str(why))
    found = tuple(
        f"{name} {entry.get('range', '')}: {entry.get('severity', 'of unknown severity')}"
        for name, entry in vulnerable.items()
    )
    return AuditReport(
        subject,
        found=found,
        unchecked=answer.failure_beside(found),
        checked=answer.content.get("metadata", {}).get("dependencies", {}).get("total", 0),
    )


def conclude(reports: Sequence[AuditReport], *, required: bool, say: Callable[[str], None]) -> int:
    for report in reports:
        for line in report.found:
            say(f"FOUND: {line}")
        if report.unchecked:
            say(f"{report.subject} could not be checked: {report.unchecked}")
        if report.checked:
            say(f"{report.subject}: {report.checked} checked, {len(report.found)} vulnerable")
    if any(report.found for report in reports):
        return FOUND
    if not any(report.unchecked for report in reports):
        return PASSED
    if required:
        say(f"{REQUIRED} is set: what could not be checked fails.")
        return FOUND
    return NOT_CHECKED


@dataclass(frozen=True, slots=True)
class _Answer:
    content: dict[str, Any]
    code: int

    def failure_beside(self, found: tuple[str, ...]) -> str:
        """Why the answer is not to be trusted: an exit code that nothing found explains."""
        return "" if found or self.code == 0 else f"exit code {self.code} without a reason"


def ask(command: Sequence[str], folder: Path, run: RunProgram) -> _Answer | str:
    """Return the JSON object that a program writes, or why there is none."""
    try:
        ended = run(command, folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        answer = json.loads(ended.output)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return _Answer(answer, ended.code)
    said = ended.errors.strip() or ended.output.strip() or "nothing"
    return f"exit code {ended.code}, {said.splitlines()[-1]}"


def vulnerabilities(packages: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability.get('fix_versions') or ['no version'])}"
        for package in packages
        for vulnerability in package.get("vulns", ())
    )


def run_program(command: Sequence[str], folder: Path) -> Ended:
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def main() -> int:
    requirements = sorted(ROOT.glob("functions/*/requirements.txt"))
    reports = [
        audit_python(requirements, run_program),
        audit_page(shutil.which("npm"), run_program),
    ]
    return conclude(reports, required=bool(os.environ.get(REQUIRED)), say=print)


if __name__ == "__main__":
    sys.exit(main())
