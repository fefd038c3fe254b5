from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from requirements.audit import (
    FOUND,
    NOT_CHECKED,
    PASSED,
    ROOT,
    AuditReport,
    Ended,
    audit_page,
    audit_python,
    conclude,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUIREMENTS = [Path("a/requirements.txt"), Path("b/requirements.txt")]
CLEAN = {"name": "starlette", "version": "1.0", "vulns": []}
VULNERABLE = {
    "name": "jinja2",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
SKIPPED = {"name": "av", "skip_reason": "Dependency not found"}


class Program:
    def __init__(self, answer: object, code: int = 0, errors: str = "") -> None:
        output = answer if isinstance(answer, str) else json.dumps(answer)
        self.ended = Ended(code, output, errors)
        self.calls: list[tuple[list[str], Path]] = []

    def __call__(self, command: Sequence[str], folder: Path) -> Ended:
        self.calls.append((list(command), folder))
        return self.ended


class Missing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_call: object, **_options: object) -> Ended:
        raise self.error


def packages(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"dependencies": list(entries), "fixes": []}


def concluded(*reports: AuditReport, required: bool = False) -> tuple[int, str]:
    said: list[str] = []
    code = conclude(reports, required=required, say=said.append)
    return code, "\n".join(said)


def test_packages_without_known_vulnerabilities_pass() -> None:
    program = Program(packages(CLEAN))

    report = audit_python(REQUIREMENTS, program)

    assert concluded(report) == (
        PASSED,
        "Python packages of the deployables: 1 checked, 0 vulnerable",
    )
    command, folder = program.calls[0]
    assert folder == ROOT
    assert " ".join(command).endswith(
        "--requirement a/requirements.txt --requirement b/requirements.txt"
    )


def test_a_vulnerable_package_fails_and_every_vulnerability_is_named() -> None:
    code, said = concluded(audit_python(REQUIREMENTS, Program(packages(CLEAN, VULNERABLE), 1)))

    assert code == FOUND
    assert "FOUND: jinja2 2.0: PYSEC-1, fixed in 2.1\n" in said
    assert "FOUND: jinja2 2.0: PYSEC-2, fixed in no version\n" in said
    assert "2 checked, 2 vulnerable" in said


UNREACHABLE = "WARNING: hashes\nERROR: Could not connect to the vulnerability feed\n"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (Program("", 1, UNREACHABLE), "exit code 1, ERROR: Could not connect"),
        (Program("[]"), "exit code 0, []"),
        (Program(packages()), "pip-audit names no package"),
        (Program(packages(CLEAN, SKIPPED)), "nothing is known of 1 of 2 packages (av)"),
        (Missing(subprocess.TimeoutExpired("pip-audit", 300)), "timed out after 300 seconds"),
    ],
)
def test_an_audit_that_did_not_happen_is_reported_and_does_not_fail(
    program: Program | Missing, reason: str
) -> None:
    code, said = concluded(audit_python(REQUIREMENTS, program))

    assert code == NOT_CHECKED
    assert said.startswith("Python packages of the deployables could not be checked: ")
    assert reason in said


def test_an_audit_that_did_not_happen_fails_where_it_is_required() -> None:
    report = audit_python(REQUIREMENTS, Program("", 1, UNREACHABLE))

    code, said = concluded(report, required=True)

    assert code == FOUND
    assert said.endswith("AUDIT_REQUIRED is set: what could not be checked fails.")


def page(vulnerabilities: dict[str, Any]) -> dict[str, Any]:
    return {"vulnerabilities": vulnerabilities, "metadata": {"dependencies": {"total": 300}}}


def test_a_vulnerable_package_of_the_page_fails() -> None:
    found = {"left-pad": {"severity": "high", "range": "<2.0.0"}}

    code, said = concluded(audit_page("npm", Program(page(found), 1)))

    assert code == FOUND
    assert "FOUND: left-pad <2.0.0: high" in said
    assert concluded(audit_page("npm", Program(page({}))))[0] == PASSED


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"message": "405 Method Not Allowed", "error": {"summary": ""}}, "405 Method Not Allowed"),
        ("not JSON", "exit code 1, not JSON"),
    ],
)
def test_unreachable_advisories_of_the_page_are_reported(answer: object, reason: str) -> None:
    code, said = concluded(audit_page("npm", Program(answer, 1)))

    assert code == NOT_CHECKED
    assert said == f"npm packages of the page could not be checked: {reason}"
