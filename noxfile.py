"""The commands a person types; `nox --list` shows them.

Every command makes the virtual environment it needs at its first run and uses it again afterwards.
Commands that need the same packages share one, which nox's own environments cannot: hence
`python=False` and `Environment`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Sequence

nox.options.sessions = ["lint", "tests"]
nox.needs_version = ">=2025.2.9"

ROOT = Path(__file__).parent
WEB = ROOT / "web"
DEPLOYABLES = ("api", "convert", "dead_letter", "on_upload", "sweep")
CONSTRAINTS = "requirements/constraints.txt"
REQUIREMENTS = (
    *sorted(ROOT.glob("requirements/*.in")),
    *sorted(ROOT.glob("functions/*/requirements.in")),
)


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Send a sample recording through the whole pipeline and show every step."""
    Environment(session, "local").python("-m", "infra.local", "demo", *session.posargs)


@nox.session(python=False)
def convert(session: nox.Session) -> None:
    """Convert your own files: nox -s convert -- IN [OUT] [--format mp3] [--help]."""
    environment = Environment(session, "local")
    # Paths are relative to where the user is, not to the repository.
    session.chdir(os.environ.get("PWD", str(ROOT)))
    environment.python("-m", "infra.local", "convert", *(session.posargs or ["--help"]))


@nox.session(python=False)
def serve(session: nox.Session) -> None:
    """Keep the local cloud up, with the page, until Ctrl-C."""
    environment = Environment(session, "local")
    build_page(session)
    environment.python("-m", "infra.local", "serve", *session.posargs)


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run all tests that need neither a browser nor the training's packages."""
    environment = Environment(session, "tests")
    elsewhere = ("--ignore=tests/browser", "--ignore=tests/unit/training")
    ignored = () if session.posargs else elsewhere
    # Two at a time, because many of them wait: for processes to start, for leases to end.
    parallel = ("-n", "2", "--dist", "loadfile")
    coverage = ("--cov", "--cov-report=term:skip-covered")
    environment.python("-m", "pytest", *parallel, *coverage, *ignored, *session.posargs)


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """Run the tests that drive a real browser."""
    environment = Environment(session, "browser")
    build_page(session)
    environment.python("-m", "pytest", *(session.posargs or ["tests/browser"]))


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Check style, types and dependencies of Python and of the page, whose own tests run, too."""
    could_not_check = 2
    environment = Environment(session, "lint")
    environment.python("-m", "ruff", "check", ".")
    environment.python("-m", "ruff", "format", "--check", ".")
    environment.python("-m", "mypy")
    environment.python("-m", "infra.audit", success_codes=[0, could_not_check])
    npm(session, "ci", "--no-audit", "--no-fund")
    npm(session, "run", "lint")
    npm(session, "test")


@nox.session(python=False)
def terraform(session: nox.Session) -> None:
    """Check the Terraform module and its examples, with a registry or without."""
    could_not_check = 2
    environment = Environment(session, "tests")
    environment.python("-m", "infra.terraform.check", success_codes=[0, could_not_check])


@nox.session(python=False, default=False)
def train(session: nox.Session) -> None:
    """Make the character anew, which takes hours; nox -s train -- --quick shows the path."""
    Environment(session, "training").python("-m", "training", *session.posargs)


@nox.session(python=False, default=False)
def quality(session: nox.Session) -> None:
    """Measure how good the character is and write it into its model card."""
    Environment(session, "training").python("-m", "training", "quality", *session.posargs)


@nox.session(python=False, default=False)
def tests_training(session: nox.Session) -> None:
    """Run the tests of the training, which need its large packages."""
    environment = Environment(session, "training")
    environment.python("-m", "pytest", "tests/unit/training", *session.posargs)


@nox.session(python=False, default=False)
def soak(session: nox.Session) -> None:
    """Convert for a while as containers are killed: nox -s soak -- --minutes N --kill-every S."""
    Environment(session, "tests").python("-m", "tests.faults.soak", *session.posargs)


@nox.session(python=False, default=False)
def bench(session: nox.Session) -> None:
    """Measure how fast it is: nox -s bench -- NAME | all | guard [--quick] [--help]."""
    Environment(session, "tests").python("-m", "benchmarks", *(session.posargs or ["--help"]))


@nox.session(python=False, default=False)
def fuzz(session: nox.Session) -> None:
    """Try malformed inputs of every kind: nox -s fuzz -- --minutes N [--target NAME]."""
    Environment(session, "tests").python("-m", "tests.fuzz", *session.posargs)


@nox.session(python=False, default=False)
def image(session: nox.Session) -> None:
    """Do the Dockerfile's steps without a container engine and see the result serve."""
    Environment(session, "tests").python("-m", "infra.image")


@nox.session(python=False, default=False)
def character(session: nox.Session) -> None:
    """Check a character bundle and tell how fast it is: nox -s character -- FOLDER."""
    Environment(session, "local").python("-m", "speech.bundles", *session.posargs)


@nox.session(python=False, default=False)
def lock(session: nox.Session) -> None:
    """Choose the newest versions of all dependencies anew and write them down."""
    environment = Environment(session, "lock")
    environment.compile_lock(CONSTRAINTS, "requirements/lint.in", "requirements/browser.in")
    for name in DEPLOYABLES:
        folder = f"functions/{name}"
        environment.compile_lock(
            f"{folder}/requirements.txt", f"{folder}/requirements.in", "-c", CONSTRAINTS
        )


class Environment:
    """A virtual environment with what `requirements/NAME.in` lists, in the locked versions.

    Args:
        session: what runs the commands.
        name: which requirements.
    """

    def __init__(self, session: nox.Session, name: str) -> None:
        self._session = session
        self._folder = ROOT / ".nox" / name
        bin_folder = "Scripts" if os.name == "nt" else "bin"
        self._python = str(self._folder / bin_folder / "python")
        self._install(f"requirements/{name}.in")

    def python(self, *arguments: str, success_codes: Sequence[int] = (0,)) -> None:
        """Run Python in it, with the repository's packages."""
        self._session.run(
            self._python,
            *arguments,
            env={"PYTHONPATH": str(ROOT)},
            external=True,
            success_codes=success_codes,
            # Long enough for the local cloud to stop everything in order after Ctrl-C.
            interrupt_timeout=20.0,
            terminate_timeout=10.0,
        )

    def compile_lock(self, output: str, *arguments: str) -> None:
        """Write a lock file that names versions and nothing of the machine it was made on."""
        form = ("--quiet", "--strip-extras", "--no-header", "--no-annotate")
        silent = ("--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links")
        self.python("-m", "piptools", "compile", "-U", *form, *silent, "-o", output, *arguments)

    def _install(self, requirements: str) -> None:
        wanted = digest_of([ROOT / CONSTRAINTS, *REQUIREMENTS])
        stamp = self._folder / "installed.sha256"
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        run, quiet = self._session.run, ("--quiet", "--disable-pip-version-check")
        run(sys.executable, "-m", "virtualenv", "--quiet", str(self._folder), external=True)
        locked = ("-r", requirements, "-c", CONSTRAINTS)
        run(self._python, "-m", "pip", "install", *quiet, *locked, external=True)
        stamp.write_text(wanted)


def digest_of(paths: list[Path]) -> str:
    """Return what changes when one of some files does."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def npm(session: nox.Session, *arguments: str) -> bool:
    """Run npm for the client and the page, where it is installed; return whether it is."""
    program = shutil.which("npm")
    if program is None:
        advice = "npm was not found; install Node.js 22.12 or newer, or 20.19"
        session.warn(f"npm {arguments[0]} left out: {advice}")
        return False
    with session.chdir(WEB):
        session.run(program, *arguments, external=True)
    return True


def build_page(session: nox.Session) -> None:
    """Build the page, if its sources changed since the last time."""
    wanted, stamp = digest_of(page_sources()), WEB / "page" / "dist" / ".built"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    npm(session, "ci", "--no-audit", "--no-fund")
    if npm(session, "run", "build"):
        stamp.write_text(wanted)


def page_sources() -> list[Path]:
    """Return everything that the built page is made of."""
    outside = {"dist", "node_modules"}
    paths = (path for path in sorted(WEB.rglob("*")) if path.is_file())
    return [path for path in paths if not outside & set(path.relative_to(WEB).parts)]
