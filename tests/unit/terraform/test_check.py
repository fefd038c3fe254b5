from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.terraform.check import (
    FOLDERS,
    FOUND,
    NOT_CHECKED,
    PASSED,
    check,
    copy_of_module,
    find_stand_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Machine:
    """Notes what is run; a command that contains one of `failing` ends with the code given."""

    def __init__(self, failing: Mapping[str, int] | None = None) -> None:
        self.failing = failing or {}
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        self.commands.append(" ".join([*command, *environment]))
        codes = [code for part, code in self.failing.items() if part in command]
        return max(codes, default=0)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    return tmp_path / "check-terraform"


def test_with_a_registry_the_real_providers_check_the_module_and_both_examples() -> None:
    machine = Machine()

    code = check(terraform="tf", registry_answers=lambda: True, stand_in=None, run=machine)

    assert code == PASSED
    for folder in FOLDERS:
        for step in ("init", "validate", "test"):
            assert [one for one in machine.commands if one.startswith(f"tf -chdir={folder} {step}")]


def test_a_lock_file_that_only_the_check_wrote_is_gone_afterwards_and_the_operators_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    (theirs / ".terraform.lock.hcl").write_text("of the operator")
    monkeypatch.setattr(f"{check.__module__}.FOLDERS", (ours, theirs))
    monkeypatch.setattr(f"{check.__module__}.ROOT", tmp_path)

    def init(command: Sequence[str], environment: Mapping[str, str]) -> int:
        del environment
        if "init" in command:
            lock = Path(command[1].removeprefix("-chdir=")) / ".terraform.lock.hcl"
            lock.write_text(lock.read_text() if lock.exists() else "of the check")
        return 0

    assert check(terraform="tf", registry_answers=lambda: True, stand_in=None, run=init) == PASSED
    assert not (ours / ".terraform.lock.hcl").exists()
    assert (theirs / ".terraform.lock.hcl").read_text() == "of the operator"


@pytest.mark.parametrize("step", ["fmt", "init", "validate", "test"])
def test_a_finding_of_a_step_is_reported(step: str) -> None:
    machine = Machine({step: 1})

    code = check(terraform="tf", registry_answers=lambda: True, stand_in=None, run=machine)

    assert code == FOUND


def test_without_a_registry_the_schema_check_stands_in(stand_in: Path) -> None:
    machine = Machine()

    code = check(terraform="tf", registry_answers=lambda: False, stand_in=stand_in, run=machine)

    assert code == PASSED
    checked = [one for one in machine.commands if one.startswith(str(stand_in))]
    assert len(checked) == len(FOLDERS)
    assert "trial.tfvars" in checked[0]


def test_the_tests_of_the_module_run_beside_few_sources(tmp_path: Path) -> None:
    copied = copy_of_module(tmp_path)

    for pattern in ("*.tf", "tests/*.tftest.hcl", "tests/*.tfvars", "tests/mocks/*"):
        names = {path.name for path in FOLDERS[0].glob(pattern)}
        assert names
        assert {path.name for path in copied.glob(pattern)} == names
    beside = [path for path in tmp_path.rglob("*") if path.is_file() and copied not in path.parents]
    assert sorted(path.suffix for path in beside) == ["", ".py", ".rules", *[".txt"] * 9]


def test_a_finding_of_the_schema_check_is_reported(stand_in: Path) -> None:
    machine = Machine({str(FOLDERS[-1]): 1})

    code = check(terraform="tf", registry_answers=lambda: False, stand_in=stand_in, run=machine)

    assert code == FOUND


def test_a_schema_check_that_cannot_run_does_not_count_as_a_check(
    stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({str(FOLDERS[-1]): 2})

    code = check(terraform="tf", registry_answers=lambda: False, stand_in=stand_in, run=machine)

    assert code == NOT_CHECKED
    assert "NOT CHECKED" in capsys.readouterr().out


def test_with_neither_it_says_that_it_could_not_check(capsys: pytest.CaptureFixture[str]) -> None:
    code = check(terraform="tf", registry_answers=lambda: False, stand_in=None, run=Machine())

    assert code == NOT_CHECKED
    assert "NOT CHECKED beyond the formatting" in capsys.readouterr().out


def test_without_terraform_it_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    code = check(terraform=None, registry_answers=lambda: True, stand_in=None, run=Machine())

    assert code == NOT_CHECKED
    assert "install version 1.9 or newer" in capsys.readouterr().out


def test_the_variable_names_the_schema_check(stand_in: Path) -> None:
    stand_in.touch()

    assert find_stand_in({"TERRAFORM_CHECK": str(stand_in)}) == stand_in


@pytest.mark.parametrize("environment", [{}, {"TERRAFORM_CHECK": ""}, {"PATH": "/nowhere"}])
def test_a_schema_check_that_is_nowhere_is_none(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert find_stand_in(environment, shared_tools=tmp_path) is None


def test_a_schema_check_is_found_on_the_path(stand_in: Path, tmp_path: Path) -> None:
    stand_in.touch(mode=0o755)

    assert find_stand_in({"PATH": str(tmp_path)}, shared_tools=tmp_path / "none") == stand_in


def test_a_schema_check_is_found_among_the_tools_beside_the_checkout(tmp_path: Path) -> None:
    program = tmp_path / "a-tool" / "check-terraform"
    program.parent.mkdir()
    program.touch()

    assert find_stand_in({}, shared_tools=tmp_path) == program


def test_the_variable_has_priority_over_everything_else(stand_in: Path, tmp_path: Path) -> None:
    stand_in.touch()
    other = tmp_path / "a-tool" / "check-terraform"
    other.parent.mkdir()
    other.touch(mode=0o755)
    environment = {"TERRAFORM_CHECK": str(stand_in), "PATH": str(other.parent)}

    assert find_stand_in(environment, shared_tools=tmp_path) == stand_in


def test_a_schema_check_that_is_not_where_the_variable_says_is_missed(stand_in: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"TERRAFORM_CHECK is {stand_in}, but this file"):
        find_stand_in({"TERRAFORM_CHECK": str(stand_in)})
