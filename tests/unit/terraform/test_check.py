from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.terraform.check import (
    FOLDERS,
    FOUND,
    NOT_CHECKED,
    PASSED,
    STEPS,
    check,
    find_stand_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RecordingMachine:
    """Notes what is run; a command that contains one of `failing` ends with the code given."""

    def __init__(self, failing: Mapping[str, int] | None = None) -> None:
        self.failing = failing or {}
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        self.commands.append(" ".join([*command, *environment]))
        if "init" in command:
            lock = Path(command[1].removeprefix("-chdir=")) / ".terraform.lock.hcl"
            lock.write_text(lock.read_text() if lock.exists() else "of the check")
        return max((code for part, code in self.failing.items() if part in command), default=0)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two folders in place of the module's own; the second has an operator's lock file."""
    found = (tmp_path / "ours", tmp_path / "theirs")
    for folder in found:
        folder.mkdir()
    (found[1] / ".terraform.lock.hcl").write_text("of the operator")
    monkeypatch.setattr(f"{check.__module__}.FOLDERS", found)
    monkeypatch.setattr(f"{check.__module__}.ROOT", tmp_path)
    return found


def test_with_a_registry_the_real_providers_check_everything_and_leave_no_lock_file(
    folders: tuple[Path, Path],
) -> None:
    machine = RecordingMachine()

    code = check(terraform="tf", registry_answers=lambda: True, stand_in=None, run=machine)

    assert code == PASSED
    asked = [f"tf -chdir={folder} {step[0]}" for folder in folders for step in STEPS]
    assert all(any(each.startswith(one) for each in machine.commands) for one in asked)
    assert not (folders[0] / ".terraform.lock.hcl").exists()
    assert (folders[1] / ".terraform.lock.hcl").read_text() == "of the operator"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("step", ["fmt", "init", "validate", "test"])
def test_a_finding_of_a_step_is_reported(step: str) -> None:
    machine = RecordingMachine({step: 1})

    code = check(terraform="tf", registry_answers=lambda: True, stand_in=None, run=machine)

    assert code == FOUND


@pytest.mark.parametrize(
    ("ends", "code", "says"), [(0, PASSED, "PASSED"), (1, FOUND, "FOUND"), (2, NOT_CHECKED, "NOT")]
)
def test_without_a_registry_the_schema_check_stands_in(
    ends: int, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, stand_in = RecordingMachine({str(FOLDERS[-1]): ends}), Path("/tools/check-terraform")

    assert (
        check(terraform="tf", registry_answers=lambda: False, stand_in=stand_in, run=machine)
        == code
    )

    checked = [one for one in machine.commands if one.startswith(str(stand_in))]
    assert len(checked) == len(FOLDERS)
    assert "trial.tfvars" in checked[0]
    assert f"\n{says}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("terraform", "says"),
    [("tf", "NOT CHECKED beyond the formatting"), (None, "install version 1.11 or newer")],
)
def test_what_could_not_be_checked_is_said(
    terraform: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = check(
        terraform=terraform, registry_answers=lambda: False, stand_in=None, run=RecordingMachine()
    )

    assert code == NOT_CHECKED
    assert says in capsys.readouterr().out


def test_a_schema_check_is_looked_for_where_the_module_says(tmp_path: Path) -> None:
    named, on_path, shared = (
        tmp_path / folder / "check-terraform" for folder in ("named", "path", "tools/one")
    )
    for program in (named, on_path, shared):
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    environment = {"TERRAFORM_CHECK": str(named), "PATH": str(on_path.parent)}
    tools = tmp_path / "tools"

    assert find_stand_in(environment, tools) == named
    assert find_stand_in(environment | {"TERRAFORM_CHECK": ""}, tools) == on_path
    assert find_stand_in({}, tools) == shared
    assert find_stand_in({}, tmp_path / "none") is None
    with pytest.raises(FileNotFoundError, match="TERRAFORM_CHECK is /none, but this file"):
        find_stand_in({"TERRAFORM_CHECK": "/none"})
