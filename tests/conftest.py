"""How the tests are distributed among several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/faults/", "tests/integration/firestore/", "tests/unit/capacity/")
"""Folders whose files share what takes long to start or to compile: a cloud, an emulator, Numba."""


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
