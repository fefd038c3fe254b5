"""How the tests are distributed among several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

FAULTS = "tests/faults/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each process a file at a time, and one of them all files of `tests/faults`.

    The tests of faults mostly wait, and share a cloud that takes long to start. While one process
    waits in them, the others compute.
    """
    # Imported here: some commands run tests without this package.
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return FAULTS if nodeid.startswith(FAULTS) else nodeid.partition("::")[0]

    return Scheduling(config, log)
