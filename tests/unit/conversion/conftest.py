from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.conversion import WorkerStage
from tests.support.logs import LogBook, log_book

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stage() -> WorkerStage:
    return WorkerStage()


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept
