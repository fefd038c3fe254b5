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
    """Records its commands and warnings; virtualenv makes the folder as the real one does."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.warned = ""

    def log(self, *_arguments: object) -> None:
        """Say nothing."""

    def warn(self, said: str) -> None:
        self.warned = said

    def run(self, *command: str, **_options: Any) -> None:
        self.commands.append(command)
        if "virtualenv" in command:
            assert "--clear" in command, "a package that is no longer named would stay"
            Path(command[-1]).mkdir(parents=True, exist_ok=True)

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


@pytest.fixture(autouse=True)
def programs(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The programs that are installed beside Python: none at first."""
    installed: dict[str, str] = {}
    monkeypatch.setattr(noxfile.shutil, "which", installed.get)
    monkeypatch.setenv("WITHOUT_KOKORO", "1")
    return installed


@pytest.mark.parametrize("works", [True, False])
def test_uv_installs_where_it_is_installed_and_pip_where_uv_cannot(
    noxfile: Any, tmp_path: Path, programs: dict[str, str], *, works: bool
) -> None:
    class WithUv(Session):
        def run(self, *command: str, **options: Any) -> None:
            super().run(*command, **options)
            if command[0] == "uv" and not works:
                raise noxfile.CommandFailed

    programs["uv"] = "uv"
    session = WithUv()
    noxfile.Environment(session, "tests", folder=tmp_path)

    (_, uv, *others) = session.commands
    assert uv[:4] == ("uv", "pip", "install", "--python")
    assert uv[-4:] == ("-r", "requirements/tests.in", "-c", "requirements/constraints.txt")
    assert [command[2] for command in others] == ([] if works else ["requirements.installation"])


@pytest.mark.parametrize("asks_for_help", [False, True])
def test_a_training_asks_before_its_packages_are_installed(
    noxfile: Any, monkeypatch: pytest.MonkeyPatch, *, asks_for_help: bool
) -> None:
    done: list[str] = []

    class Recorded:
        def __init__(self, _session: object, name: str) -> None:
            done.append(name)

        def python(self, *arguments: str) -> None:
            done.append(arguments[1])

    monkeypatch.setattr(noxfile, "Environment", Recorded)
    monkeypatch.setattr(noxfile, "running", lambda session: Recorded(session, "running"))
    arguments = ["--help"] if asks_for_help else ["--recordings", "folder", "--as", "ada"]
    noxfile.train(SimpleNamespace(posargs=arguments, chdir=lambda _folder: nullcontext()))

    asked = ["running", "tools.training.recordings.questions"]
    assert done == asked + ([] if asks_for_help else ["training", "tools.training"])


def test_an_environment_is_made_once_for_each_python(noxfile: Any, tmp_path: Path) -> None:
    made = ["virtualenv", "requirements.installation"]
    for interpreter, expected in [("CPython 3.11", made), ("CPython 3.11", []), ("3.13", made)]:
        session = Session()
        noxfile.Environment(session, "tests", folder=tmp_path, interpreter=interpreter)
        assert session.take() == expected


@pytest.mark.parametrize("can_be_installed", [True, False])
def test_kokoro_is_installed_where_it_can_be_unless_an_operator_leaves_it_out(
    noxfile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, can_be_installed: bool
) -> None:
    class WithoutKokoro(Session):
        def run(self, *command: str, **options: Any) -> None:
            super().run(*command, **options)
            if noxfile.KOKORO in command and not can_be_installed:
                raise nox.command.CommandFailed(reason="no such package")

    left_out = Session()
    noxfile.Environment(left_out, "local", folder=tmp_path / "without")
    monkeypatch.setenv("WITHOUT_KOKORO", "")
    session = WithoutKokoro()
    noxfile.Environment(session, "local", folder=tmp_path)

    assert not any(noxfile.KOKORO in each for each in left_out.commands)
    (command,) = [each for each in session.commands if noxfile.KOKORO in each]
    assert {"--require-hashes", "--no-deps"} <= set(command)
    assert ("spoken in Japanese alone" in session.warned) is not can_be_installed
    assert (tmp_path / "local" / "installed.txt").exists()


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
        one = threads.submit(noxfile.Environment, first, "tests", folder=tmp_path)
        assert installs.wait(20)
        other = threads.submit(noxfile.Environment, second, "tests", folder=tmp_path)
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
        noxfile.Environment(Failing(), "tests", folder=tmp_path)
    session = Session()
    noxfile.Environment(session, "tests", folder=tmp_path)

    assert session.take() == ["virtualenv", "requirements.installation"]


@pytest.mark.usefixtures("noxfile")
def test_the_pages_name_commands_that_exist_and_contributing_has_a_table_of_all() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"nox -s ([a-z_]+)", (ROOT / page).read_text("utf-8")))
        assert named, page
        assert named - set(nox.registry.get()) == set(), page

    lines = (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()
    cells = [line.split(" | ")[0] for line in lines if line.startswith("| `nox -s ")]
    named = {name for cell in cells for name in re.findall(r"nox -s ([a-z_]+)", cell)}
    assert named == set(nox.registry.get())
