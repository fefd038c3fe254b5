from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.api.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(folder=tmp_path)
