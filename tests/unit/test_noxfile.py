"""The commands: their virtual environments, and the pages that name them."""

from __future__ import annotations

import importlib.util
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nox
import nox.registry
import pytest

ROOT = Path(__file__).parents[2]


class Session:
    """Records its commands; virtualenv makes or clears the folder as the real one does."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []

    def log(self, *_arguments: object) -> None:
        """Say nothing."""

    def run(self, *command: str, **_options: Any) -> None:
        self.commands.append(command)
        if "virtualenv" in command:
            folder = Path(command[-1])
            folder.mkdir(parents=True, exist_ok=True)
            if "--clear" in command:
                for path in folder.iterdir():
                    path.unlink()

    def chdir(self, _folder: Path) -> nullcontext[None]:
        return nullcontext()

    def take(self) -> list[str]:
        """Return the modules that were run since the last time."""
        modules = [command[2] for command in self.commands]
        self.commands.clear()
        return modules


@pytest.fixture(scope="module")
def noxfile() -> Any:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_environment_is_made_once_for_each_python(noxfile: Any, tmp_path: Path) -> None:
    made = ["virtualenv", "requirements.installation"]
    for interpreter, expected in [("CPython 3.11", made), ("CPython 3.11", []), ("3.13", made)]:
        session = Session()
        noxfile.Environment(session, "lint", folder=tmp_path, interpreter=interpreter)
        assert session.take() == expected


def test_an_environment_that_is_made_anew_keeps_no_package(noxfile: Any, tmp_path: Path) -> None:
    session = Session()
    noxfile.Environment(session, "lint", folder=tmp_path)
    dropped = tmp_path / "lint" / "a_dropped_package.py"
    dropped.touch()
    (tmp_path / "lint" / "installed.txt").write_text("other requirements")

    noxfile.Environment(session, "lint", folder=tmp_path)

    assert not dropped.exists()


def test_of_two_commands_one_installs_and_the_other_waits_and_says_so(
    noxfile: Any, tmp_path: Path
) -> None:
    installs, waits = threading.Event(), threading.Event()

    class First(Session):
        def run(self, *command: str, **options: Any) -> None:
            super().run(*command, **options)
            installs.set()
            assert waits.wait(20), "the second command did not wait"

    class Second(Session):
        def log(self, *arguments: object) -> None:
            assert "waiting" in str(arguments[0])
            waits.set()

    first, second = First(), Second()
    with ThreadPoolExecutor() as threads:
        one = threads.submit(noxfile.Environment, first, "lint", folder=tmp_path)
        assert installs.wait(20)
        other = threads.submit(noxfile.Environment, second, "lint", folder=tmp_path)
        one.result(30)
        other.result(30)

    assert first.take() == ["virtualenv", "requirements.installation"]
    assert second.take() == []


def test_after_an_install_that_failed_the_command_that_waited_installs(
    noxfile: Any, tmp_path: Path
) -> None:
    class Failing(Session):
        def run(self, *_command: str, **_options: Any) -> None:
            raise ConnectionError("no registry")

    with pytest.raises(ConnectionError):
        noxfile.Environment(Failing(), "lint", folder=tmp_path)
    session = Session()
    noxfile.Environment(session, "lint", folder=tmp_path)

    assert session.take() == ["virtualenv", "requirements.installation"]


@pytest.mark.parametrize(
    ("arguments", "is_whole"),
    [
        ([], True),
        (["-q"], True),
        (["-k", "lease"], True),
        (["tests/unit", "-q"], False),
        (["tests/unit/test_noxfile.py::test_nothing"], False),
    ],
)
def test_options_alone_do_not_add_the_tests_that_other_sessions_run(
    noxfile: Any, monkeypatch: pytest.MonkeyPatch, *, arguments: list[str], is_whole: bool
) -> None:
    ran: list[str] = []

    class Recorded:
        def __init__(self, *_arguments: object) -> None:
            self.python = lambda *command: ran.extend(command)

    monkeypatch.setattr(noxfile, "Environment", Recorded)
    noxfile.tests(SimpleNamespace(posargs=arguments))

    assert ("--ignore=tests/browser" in ran) == is_whole


def test_npm_packages_are_installed_again_only_for_another_lock_file(
    noxfile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noxfile, "WEB", tmp_path)
    monkeypatch.setattr(noxfile.shutil, "which", lambda name: name)
    session, lock = Session(), tmp_path / "package-lock.json"
    (tmp_path / "node_modules").mkdir()
    install = ("npm", "ci", "--no-audit", "--no-fund")

    lock.write_text("{}")
    noxfile.install_npm_packages(session)
    noxfile.install_npm_packages(session)
    assert session.commands == [install]

    lock.write_text('{"name": "changed"}')
    noxfile.install_npm_packages(session)
    assert session.commands == [install, install]


@pytest.mark.usefixtures("noxfile")
def test_the_readme_and_contributing_name_only_commands_that_exist() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"nox -s ([a-z_]+)", (ROOT / page).read_text("utf-8")))

        assert named, page
        assert named - set(nox.registry.get()) == set(), page


@pytest.mark.usefixtures("noxfile")
def test_contributing_has_a_table_of_every_command() -> None:
    lines = (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()
    cells = [line.split(" | ")[0] for line in lines if line.startswith("| `nox -s ")]

    named = {name for cell in cells for name in re.findall(r"nox -s ([a-z_]+)", cell)}

    assert named == set(nox.registry.get())
