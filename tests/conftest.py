"""Which tests run, and how they are distributed among several processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/robustness/faults/", "tests/integration/firestore/")
"""Folders whose files share what takes long to start: a cloud, an emulator."""

TRAINER = Path(__file__).parents[1] / ".nox" / "training" / "bin" / "python"
"""The Python that has PyTorch; `nox -s install` makes it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the trainings that take minutes."""
    text = "run the tests that train a character really, for minutes; they need `nox -s install`"
    parser.addoption("--train", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis draw the same inputs every time, and not judge a busy machine's speed.

    `nox -s fuzz` draws others, with a profile of its own.
    """
    with suppress(ImportError):  # some commands run tests without this package
        from hypothesis import settings  # noqa: PLC0415 - see above

        if not config.getoption("--hypothesis-profile", None):
            settings.load_profile("ci")


def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Leave the tests that train really to who asks for them."""
    if not config.getoption("--train"):
        skip = pytest.mark.skip(reason="trains for minutes: --train")
        for item in items:
            if item.get_closest_marker("trains"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def trainer() -> Path:
    """The Python that has what a training needs."""
    if not TRAINER.exists():
        pytest.skip("PyTorch is not installed; `nox -s install` installs it")
    return TRAINER


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each process a file at a time, or a whole folder of those in TOGETHER.

    The first folder, that of the faults, mostly waits: the other processes compute meanwhile.
    """
    # Imported here: some commands run tests without this package.
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folders = (folder for folder in TOGETHER if nodeid.startswith(folder))
            return next(folders, nodeid.partition("::")[0])

    return Scheduling(config, log)
